#!/bin/bash
# Budgets of directories, on two mounts of a cell of three, over a fail-over and a restart.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
	mkdir "$b"
}

b=$m/b other=$m2/b
exceeds() { refused "Disk quota exceeded" "$@"; }

case_it_is_set_and_shown() {
	mkdir "$b/a"
	exits 1 getfattr -n user.ls.quota.nodes "$b/a" 2> "$work/none"
	is "$(attribute usage.nodes "$b/a")$(attribute usage.bytes "$b/a")" 00
	setfattr -n user.ls.quota.nodes -v 3 "$b/a"
	setfattr -n user.ls.quota.bytes -v 4096 "$other/a"
	is "$(attribute quota.nodes "$other/a") $(attribute quota.bytes "$b/a")" "3 4096"
	getfattr -d "$b/a" 2> "$work/none" | grep -q '^user.ls.quota.nodes="3"$'
	getfattr -d "$b/a" 2> "$work/none" | grep -q '^user.ls.usage.bytes="0"$'
	touch "$b/file"
	exits 1 getfattr -n user.ls.usage.nodes "$b/file" 2> "$work/none"
	refused "Not a directory" setfattr -n user.ls.quota.nodes -v 3 "$b/file"
	refused "Invalid argument" setfattr -n user.ls.quota.nodes -v many "$b/a"
	refused "Numerical result" setfattr -n user.ls.quota.nodes -v 99999999999 "$b/a"
	refused "not permitted" setfattr -n user.ls.usage.nodes -v 0 "$b/a"
}

case_what_would_exceed_is_refused() {
	mkdir "$b/a/b"
	touch "$b/a/b/f" "$other/a/g"
	exceeds touch "$b/a/h"
	exceeds mkdir "$other/a/b/c"
	exceeds mv -T "$b/file" "$b/a/file"
	printf 'create %s\ncreate %s\n' "/b/txn" "/b/a/txn" > "$work/txn"
	exits 1 "$LSCTL" txn "$work/txn" > "$work/said" 2>&1
	[ ! -e "$b/txn" ]
	mv "$b/a/g" "$b/a/b/g"
	mv "$b/a/b/g" "$b/g"
	touch "$other/a/h"
	is "$(attribute usage.nodes "$b/a") $(attribute usage.nodes "$b/a/b")" "3 1"
	rm "$b/a/h" "$b/g"
}

# grow PATH BYTES: one write at the end of the file, and which call failed.
grow() {
	python3 - "$@" << 'EOF'
import os, sys
f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
call = "write"
try:
    os.write(f, b"x" * int(sys.argv[2]))
    call = "close"
    os.close(f)
except OSError as e:
    print(call, e.strerror)
EOF
}

case_the_write_fails_and_not_the_close() {
	is "$(grow "$b/a/b/f" 1000)" ""
	is "$(attribute usage.bytes "$other/a")" 1512
	wait_until "the mount knows that little is left" write_is_refused "$b/a/b/f"
	wait_until "the other one does" write_is_refused "$other/a/b/f"
	is "$(stat -c %s "$b/a/b/f")" 1000
	: > "$b/a/b/f"
	is "$(attribute usage.bytes "$b/a")" 512
}

write_is_refused() { [ "$(grow "$1" 4000)" = "write Disk quota exceeded" ]; }

case_nested() {
	setfattr -n user.ls.quota.nodes -v 1 "$b/a/b"
	exceeds touch "$b/a/b/2"
	touch "$b/a/3"
	setfattr -n user.ls.quota.nodes -v 9 "$b/a/b"
	exceeds touch "$b/a/b/2"
	rm "$b/a/3"
	setfattr -x user.ls.quota.nodes "$b/a/b"
	exits 1 getfattr -n user.ls.quota.nodes "$other/a/b" 2> "$work/none"
}

case_ephemeral_files_count() {
	python3 - "$b/a/e" << 'EOF'
import os, stat, sys
f = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600 | stat.S_ISVTX)
try:
    os.mkdir(sys.argv[1] + "x")
    sys.exit("there is room for one more")
except OSError as e:
    assert e.strerror == "Disk quota exceeded", e
EOF
	# The kernel tells the mount of the last close when the program may have ended already.
	is_gone() { [ "$(attribute usage.nodes "$other/a")" = 2 ]; }
	wait_until "the file is gone" is_gone
}

case_df_and_limits_show_it() {
	is "$(df --output=itotal,iused "$b/a/b/f" | tail -1 | xargs)" "3 2"
	is "$(stat -f -c %c "$other/a")" 3
	[ "$(stat -f -c %c "$b")" -gt 1000 ]
	"$LSCTL" status --limits "$b/a/b" > "$work/limits"
	grep -qE "^quota_nodes +/b/a +2 +3 +count +66.7" "$work/limits"
	grep -qE "^quota_bytes +/b/a +512 +4096 +bytes" "$work/limits"
	exits 1 grep -qE "^quota_.*/b/a/b" "$work/limits"
}

case_over_a_fail_over_and_a_restart() {
	kill_replica "$(master)"
	touch "$b/a/last"
	exceeds touch "$other/a/more"
	is "$(attribute usage.nodes "$other/a") $(attribute quota.nodes "$b/a")" "3 3"
	start_missing
	fusermount3 -u "$m2"
	down
	up_of_three
	is "$(attribute usage.nodes "$b/a") $(attribute usage.bytes "$b/a")" "3 768"
	exceeds touch "$b/a/more"
	rm "$b/a/last"
	touch "$b/a/more"
}

# A tenant with all rights in his directory cannot raise its budget; he can bound what is below.
case_a_tenant() {
	local acl
	rm "$b/a/more"
	mkdir "$b/a/b/c"
	cell_ctl principal add tenant "$("$LSCTL" key generate "$work/tenant.key" tenant)"
	limit 30 "$LSFS" -o "key=$work/tenant.key" "$cell/dc1.conf" "$m2"
	echo tenant > "$m/acl/tenant"
	for acl in read write change; do
		setfattr -n user.ls.acl.$acl -v tenant "$b/a" "$b/a/b" "$b/a/b/c"
	done
	refused "Permission denied" setfattr -n user.ls.quota.nodes -v 99 "$other/a"
	refused "Permission denied" setfattr -x user.ls.quota.nodes "$other/a"
	exceeds touch "$other/a/more"
	setfattr -n user.ls.quota.nodes -v 1 "$other/a/b/c"
	setfattr -n user.ls.quota.nodes -v 99 "$b/a/b/c"
}

case_down() { down; }

run_cases
