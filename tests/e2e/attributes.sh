#!/bin/bash
# Extended attributes, ephemeral nodes and sequencers.
. "$(dirname "$0")/lib.sh"
start || exit 1
cd "$m" || exit 1

case_dump() {
	echo x > "$d/f"
	local dump name
	dump=$(getfattr -d --absolute-names "$d/f")
	for name in instance content_generation lock_generation acl_generation checksum ephemeral \
		acl.read acl.write acl.change lock; do
		[[ $dump == *"user.ls.$name="* ]] || { say "no $name in: $dump"; return 1; }
	done
	is "$(attribute acl.read "$d/f")" everyone
	is "$(attribute acl.change "$d/f")" admin
	is "$(attribute instance "$d/f")" "$(stat -c %i "$d/f")"
	getfattr -d "$d" > /dev/null
}

case_acl_names_are_inherited() {
	mkdir "$d/dir"
	setfattr -n user.ls.acl.write -v admin "$d/dir"
	is "$(attribute acl_generation "$d/dir")" 2
	touch "$d/dir/f"
	is "$(attribute acl.write "$d/dir/f")" admin
	is "$(cat "$m/acl/admin")" admin
	is "$(cat "$m/acl/everyone")" '*'
}

case_read_only_and_bad_values() {
	touch "$d/f"
	refused "Operation not permitted" setfattr -n user.ls.instance -v 7 "$d/f"
	refused "Operation not permitted" setfattr -n user.ls.checksum -v 7 "$d/f"
	refused "Numerical result out of range" setfattr -n user.ls.lock_delay -v 61 "$d/f"
	refused "Invalid argument" setfattr -n user.ls.lock_delay -v soon "$d/f"
	refused "No such attribute" getfattr -n user.ls.nothing "$d/f"
	refused "No such attribute" getfattr -n user.ls.sequencer "$d/f"
	refused "not supported" setfattr -n security.foo -v x "$d/f"
	setfattr -n user.ls.lock_delay -v 0 "$d/f"
	is "$(attribute lock_delay "$d/f")" 0
}

case_ephemeral_file() {
	python3 - "$d/f" <<-'P'
		import os, stat, sys
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644 | stat.S_ISVTX)
		assert os.stat(sys.argv[1]).st_mode & stat.S_ISVTX
		os.write(fd, b"here")
		os.fsync(fd)
		assert open(sys.argv[1]).read() == "here"
		second = os.open(sys.argv[1], os.O_RDONLY)
		os.close(fd)
		assert os.path.exists(sys.argv[1])
		os.close(second)
	P
	wait_until "it is gone" test ! -e "$d/f"
}

case_ephemeral_by_attribute() {
	exec 9> "$d/f"
	is "$(attribute ephemeral "$d/f")" 0
	setfattr -n user.ls.ephemeral -v 1 "$d/f"
	is "$(attribute ephemeral "$d/f")" 1
	[ -k "$d/f" ]
	exec 9>&-
	wait_until "it is gone" test ! -e "$d/f"
}

case_ephemeral_file_of_a_killed_process() {
	python3 - "$d/f" <<-'P'
		import os, signal, stat, sys
		pid = os.fork()
		if pid == 0:
		    os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644 | stat.S_ISVTX)
		    os.kill(os.getpid(), signal.SIGKILL)
		os.waitpid(pid, 0)
	P
	wait_until "it is gone" test ! -e "$d/f"
}

case_ephemeral_directory() {
	python3 -c "import os, sys; os.mkdir(sys.argv[1], 0o1755)" "$d/dir"
	[ -k "$d/dir" ]
	touch "$d/dir/f"
	rm "$d/dir/f"
	wait_until "it is gone" test ! -e "$d/dir"
}

case_renamed_ephemeral_file() {
	exec 9> "$d/f"
	setfattr -n user.ls.ephemeral -v 1 "$d/f"
	mv "$d/f" "$d/g"
	is "$(attribute ephemeral "$d/g")" 1
	exec 9>&-
	wait_until "it is gone" test ! -e "$d/g"
}

case_sequencer() {
	local sequencer
	exec 9<> "$d/a:b"
	flock 9
	sequencer=$(attribute sequencer "$d/a:b")
	local body="/ls/local/case_sequencer/a:b:1:exclusive"
	body=$body:$(stat -c %i "$d/a:b"):$(attribute fence "$d/a:b")
	[[ $sequencer == "$body:"* ]]
	"$LSCTL" verify --cell "$data/cell.conf" "$sequencer"
	refused "" "$LSCTL" verify --cell "$data/cell.conf" "${sequencer/exclusive/shared}"
	refused "" "$LSCTL" verify --cell "$data/cell.conf" "nonsense"
	exec 9>&-
	refused "No such attribute" getfattr -n user.ls.sequencer "$d/a:b"
}

case_acl_show() {
	local acl=("$LSCTL" acl show)
	touch "$d/f"
	is "$("${acl[@]}" "$d/f")" "read    everyone: *
write   everyone: *
change  admin: admin"
	printf '# the team\n\nann # on call\n  bob\n' > "$m/acl/team"
	setfattr -n user.ls.acl.write -v team "$d/f"
	"${acl[@]}" "$d/f" | grep -qx 'write   team: ann bob'
	"${acl[@]}" --json "$d/f" > "$work/out"
	python3 -c '
import json, sys
acls = json.load(open(sys.argv[1]))
assert acls["write"] == {"acl": "team", "principals": ["ann", "bob"]}, acls
assert list(acls) == ["read", "write", "change"], acls' "$work/out"
	printf 'ann\033[2J\302\2332J\n' > "$m/acl/team"
	"${acl[@]}" "$d/f" | grep -Fqx 'write   team: ann\x1b[2J\xc2\x9b2J'
	"${acl[@]}" --json "$d/f" | grep -iFq '"ann\u001b[2J\u009b2J"'
	printf 'bob\nJos\351\n' > "$m/acl/team"
	"${acl[@]}" "$d/f" | grep -Fqx 'write   team: bob Jos\xe9'
	"${acl[@]}" --json "$d/f" | grep -Fq '"Jos\\xe9"'
	{ echo bob && head -c 65536 /dev/zero | tr '\0' '#'; } > "$m/acl/team"
	"${acl[@]}" "$d/f" | grep -qx 'write   team: (longer than 64 KiB: gives no right)'
	rm "$m/acl/team"
	"${acl[@]}" "$d/f" | grep -qx 'write   team: (there is no such ACL file)'
	: > "$m/acl/team"
	"${acl[@]}" "$d/f" | grep -qx 'write   team: (nobody)'
	"${acl[@]}" "$d" | grep -qx 'write   everyone: \*'
	one_line 1 "in no mount of lsfs" "${acl[@]}" "$work"
	one_line 1 "No such file" "${acl[@]}" "$d/none"
	one_line 2 "show: needed" "$LSCTL" acl
}

run_cases
