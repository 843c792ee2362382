# shellcheck shell=bash
# A cell whose replicas are processes of this machine, each on a port of its own. Sourced behind
# lib.sh.

cell=$work/cell
m2=$work/mnt2 # a second mount
mkdir "$m2"

# A port that no replica of this test has had.
free_port() {
	echo taken >> "$work/ports"
	echo $((7000 + $(wc -l < "$work/ports")))
}

# Replica N works on $cell/N; its messages are in $work/lscell-N.log.
start_replica() { "$LSCELL" "$cell/$1" 2>> "$work/lscell-$1.log" & }
replica() { pgrep -f -- "lscell .*$cell/$1\$" | head -n 1; }
has_ended() { [ -z "$(replica "$1")" ]; }
said() { grep -q -- "$2" "$work/lscell-$1.log"; }

# kill_replica N [SIGNAL]
kill_replica() {
	local pid
	pid=$(replica "$1")
	kill -"${2:-9}" "$pid"
	wait_until "replica $1 has ended" gone "$pid"
}

# Starts those that have ended.
start_missing() {
	local r
	for r in 1 2 3; do ! has_ended $r || start_replica $r; done
}

# listens PORT
listens() { (exec 7<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

# create_of_three [OPTION...]
create_of_three() {
	local i at=()
	for i in 1 2 3; do at+=(--replica "127.0.0.1:$(free_port)"); done
	"$LSCTL" cell create dc1 --dir "$cell" "${at[@]}" "$@" > /dev/null
}
# up_of_three [NAME=VALUE...]: lsctl makes it, with these settings, starts it and mounts it on $m.
up_of_three() {
	[ $# -eq 0 ] || create_of_three "${@/#/--set=}"
	limit 60 "$LSCTL" up --replicas 3 --dir "$cell" --mount "$m" dc1 > /dev/null
}
down() { limit 60 "$LSCTL" down --dir "$cell" dc1; }

# mount_second [OPTIONS]: with the same key.
mount_second() { limit 30 "$LSFS" -o "key=$cell/admin.key${1:+,$1}" "$cell/dc1.conf" "$m2"; }

# As an operator, of the cell dc1 in $cell. Its file may become another one.
conf=$cell/dc1.conf
cell_ctl() { limit 60 "$LSCTL" --cell "$conf" --key "$cell/admin.key" "$@"; }

# Of what `replica list` tells: a Python expression over the replicas by id, r.
told_of_replicas() {
	cell_ctl replica list --json > "$work/list" 2> "$work/list-errors" || :
	python3 -c 'import json, sys
r = {one["id"]: one for one in json.load(open(sys.argv[1]))}
print(eval("(" + sys.argv[2] + ")"))' "$work/list" "$1"
}
is_told() { [ "$(told_of_replicas "$1" 2> /dev/null)" = True ]; }
is_voting() { is_told "r[$1]['voter'] and r[$1]['condition'] == 'voting' and r[$1]['lag'] < 1000"; }

# The most memory that a process has had.
kilobytes() { sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }

# leases CACHE SESSION: sessions that are opened from now on are in jeopardy, or over, soon.
leases() {
	cell_ctl cell set cache_lease="$1" > /dev/null
	cell_ctl cell set session_lease="$2" > /dev/null
}

# As the mount on $m tells it.
master() { session_says master "$m"; }
epoch() { session_says epoch "$m"; }
another_master() {
	local now
	now=$(master)
	[ -n "$now" ] && [ "$now" != 0 ] && [ "$now" != "$1" ]
}

# A KeepAlive is answered within a third of the lease, which is 12 s, and the next one is sent at
# once: one that is late by some seconds shows.
keepalives_are_in_time() {
	local left
	left=$(sed -n 's/^lease_left: \([0-9]*\).*/\1/p' "$m/.cell/status")
	[ "$left" -ge 5 ] || { say "$left s of the lease are left"; return 1; }
}

# steps_are_short [REPLICAS]: a step takes 10 ms at most, and many times as long where others have
# the processor.
steps_are_short() {
	local us seen=0
	for us in $(cell_ctl status --json | sed -n 's/.*"longest_step_us": \([0-9]*\).*/\1/p'); do
		seen=$((seen + 1))
		[ "$us" -lt 1000000 ] || { say "a step of $us us"; return 1; }
	done
	is $seen "${1:-3}"
}
