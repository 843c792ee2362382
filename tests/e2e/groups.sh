#!/bin/bash
# Groups in ACL files, on the mounts of two principals, while the master is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	cell_ctl principal add ann "$("$LSCTL" key generate "$work/ann.key" ann)"
	limit 30 "$LSFS" -o "key=$work/ann.key" "$cell/dc1.conf" "$m2"
}

case_a_group_of_a_group() {
	local theirs=$m2/${d##*/}
	echo secret > "$d/f"
	printf 'admin\n@team # who may read it\n' > "$m/acl/readers"
	echo @ops > "$m/acl/team"
	setfattr -n user.ls.acl.read -v readers "$d/f"
	exits 1 cat "$theirs/f" 2> "$work/err"
	echo ann > "$m/acl/ops"
	is "$(cat "$theirs/f")" secret
	is "$("$LSCTL" acl show "$d/f" | head -n 1)" "read    readers: admin @team"
	echo @readers > "$m/acl/ops"
	exits 1 cat "$theirs/f" 2> "$work/err"
}

# What the one may read is in its caches, and behind the fail-over the other takes it away.
case_a_fail_over_in_the_middle() {
	local theirs=$m2/${d##*/} old
	echo secret > "$d/f"
	printf 'admin\n@team\n' > "$m/acl/readers"
	echo ann > "$m/acl/team"
	setfattr -n user.ls.acl.read -v readers "$d/f"
	is "$(cat "$theirs/f")" secret
	old=$(master)
	kill_replica "$old"
	is "$(cat "$theirs/f")" secret
	: > "$m/acl/team"
	exits 1 cat "$theirs/f" 2> "$work/err"
	start_replica "$old"
	echo ann > "$m/acl/team"
	is "$(cat "$theirs/f")" secret
}

# The history shows to each what he may read when he asks.
case_changes_that_a_group_may_read() {
	local old
	printf 'admin\n@team\n' > "$m/acl/readers"
	: > "$m/acl/team"
	echo secret > "$d/f"
	setfattr -n user.ls.acl.read -v readers "$d/f"
	is "$(changes_of_f)" 0
	old=$(master)
	kill_replica "$old"
	echo ann > "$m/acl/team"
	echo more > "$d/f"
	[ "$(changes_of_f)" -ge 3 ]
	start_replica "$old"
	: > "$m/acl/team"
	is "$(changes_of_f)" 0
}
changes_of_f() { timeout 2 cat "$m2/.cell/changes" | grep -c "${d##*/}/f\"" || :; }

case_down() { down; }

run_cases
