#!/bin/bash
# Replicas of two programs, which differ in the minor version of the wire and in what stands in the
# log and in state.db (next_level.patch makes the later one of this tree), swapped one by one under
# load: forth, back, and forth again.
REPLICAS=5 MOUNTS=2
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/netns.sh"
patience=60
tree=$work/tree
next=$build/next-level # the later programs, built once for each tree
old_cell=$LSCELL

case_build() {
	local sum
	make -s -C "$build" distdir distdir="$tree" > "$work/out" 2>&1 ||
		{ tail -n 50 "$work/out"; return 1; }
	patch -s -p1 -F1 -d "$tree" < "$(dirname "$script")/next_level.patch"
	sum=$(cd "$tree" && find cell fs configure.ac -type f -print0 | sort -z |
		xargs -0 sha256sum | sha256sum)
	[ "$(cat "$next/sum" 2> /dev/null)" != "$sum" ] || return 0
	rm -rf "$next"
	mkdir "$next"
	(cd "$tree" && autoreconf -fi && ./configure --quiet CFLAGS=-O1 &&
		make -s -j2 cell/lscell fs/lsfs) > "$work/out" 2>&1 ||
		{ tail -n 50 "$work/out"; return 1; }
	cp "$tree/cell/lscell" "$tree/fs/lsfs" "$next"
	echo "$sum" > "$next/sum"
}

case_network() { make_network; }

# setting NAME: its value in the cell.
setting() {
	operate cell show --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["settings"].get(sys.argv[1], {}).get("value", "none"))' "$1"
}
is_set() { [ "$(setting "$1")" = "$2" ]; }

# votes N: and has caught up.
votes() {
	operate replica list --json 2> "$work/no" | python3 -c 'import json, sys
one = [r for r in json.load(sys.stdin) if r["id"] == int(sys.argv[1])][0]
sys.exit(one.get("condition") != "voting" or one.get("lag", 1000) > 100)' "$1" 2> "$work/no"
}

# swap PROGRAM N...: each of them is stopped in good order, and started as this program.
swap() {
	local LSCELL=$1 i
	shift
	for i in "$@"; do
		stop_replica "$i"
		start_replica "$i"
		wait_until "replica $i votes" votes "$i"
		writes_go_on 50
	done
}

# forth_and_back N: a cell of N replicas.
forth_and_back() {
	local i last=$1 others
	others=$(seq $((last - 1)))
	replicas=$1 cell=$work/cell$1
	conf=$cell/net.conf
	make_cell
	for i in $(seq "$last"); do start_replica "$i"; done
	wait_until "there is a master" has_master
	start_mount 1
	LSFS=$next/lsfs start_mount 2
	echo one > "$work/m2/f"
	steadily "$work/m1"

	for i in $(seq "${ROUNDS:-1}"); do
		# shellcheck disable=SC2086 # words
		swap "$next/lscell" $others
		is "$(setting minor_version)" 0
		operate doctor > "$work/out" || :
		grep -q "its replicas run programs of different versions: .*+next of 1" "$work/out"
		# shellcheck disable=SC2086
		swap "$old_cell" $others
	done
	# shellcheck disable=SC2046
	swap "$next/lscell" $(seq "$last")
	wait_until "the log is of the next version" is_set minor_version 1
	wait_until "what is new is in the log" is_set next_level 1
	writes_go_on 50

	# One that goes back says so, and the others go on.
	stop_replica 1
	start_replica 1
	wait_until "the old program has ended" eval '! alive r1'
	grep -q "speaks an earlier minor version than the log is written in: install" \
		"$work/lscell-1.log"
	not grep -i 'damaged\|must(' "$work/lscell-1.log"
	writes_go_on 50
	LSCELL=$next/lscell start_replica 1
	wait_until "it votes as the new one" votes 1
	end_writer
	[ "$longest" -lt 1000 ]
	is "$(cat "$work/m1/f")" one
	stop_mount 1
	stop_mount 2
	for i in $(seq "$last"); do stop_replica "$i"; done
}

case_three() { forth_and_back 3; }
case_five() { forth_and_back 5; }

run_cases
