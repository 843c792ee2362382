#!/bin/bash
# docs/coming-from.md: what stands there beside the calls of rivals does what it should, each table
# in one shell, in the directory of a mount.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"
. "$(dirname "$0")/coming_from_lines.sh"

# A watch ends with its first event: what it watches is written to until then.
watched() {
	local pid path=${1##* }
	[ -f "$path" ] || path+=/written
	eval "limit 20 $1" > "$work/told" &
	pid=$!
	while kill -0 $pid 2> "$work/gone"; do echo more > "$path"; done
	wait $pid && grep -q '"event"' "$work/told"
}

tried() {
	local line
	cd "$m" || return 1
	while IFS= read -r line; do
		say "$line"
		case $line in
		"lsctl watch"*) watched "$line" ;;
		*) eval "$line" ;;
		esac || return 1
	done < "$work/lines"
}

# section NAME
section() {
	lines 2 "$1" > "$work/lines"
	[ "$(wc -l < "$work/lines")" -ge 10 ]
	(PATH=$build/ctl:$PATH && tried < /dev/null)
}

case_mounted() {
	up_of_three
	wait_until "all replicas take part" cell_ctl status --check > "$work/verdict"
}
case_zookeeper() { section ZooKeeper; }
case_etcd() { section etcd; }
case_consul() { section Consul; }
case_down() { down; }

run_cases
