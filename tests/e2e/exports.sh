#!/bin/bash
# export and import, on two mounts of a cell of three, while it is written to and the master dies.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
	mkdir "$b"
}

b=$m/b other=$m2/b
export_of() { limit 60 "$LSCTL" export "$@"; }
import_to() { limit 60 "$LSCTL" import "$@"; }

# What can be seen of a tree, but for what belongs to its place.
tell() {
	(cd "$1" && find . -printf '%y %P\n' | sort
	find . -type f -print0 | sort -z | xargs -0r sha256sum
	find . -mindepth 1 -print0 | sort -z |
		xargs -0r getfattr -d -m 'user.ls.(acl[.]|lock_slots|quota|ttl$)')
}

case_a_round_trip() {
	local long
	long=$(printf 'x%.0s' $(seq 120))
	mkdir -p "$b/a/dir/$long/$long" "$b/a/two words" "$b/a/empty"
	head -c 200000 /dev/urandom > "$b/a/dir/random"
	echo text > "$b/a/dir/$long/$long/$long"
	echo blank > "$b/a/two words/a b"
	: > "$b/a/nothing"
	echo admin > "$m/acl/team"
	setfattr -n user.ls.acl.write -v team "$b/a/dir" "$b/a/nothing"
	setfattr -n user.ls.lock_slots -v 3 "$b/a/nothing"
	setfattr -n user.ls.quota.nodes -v 9 "$b/a/dir"
	setfattr -n user.ls.ttl -v 3600 "$b/a/two words/a b"
	export_of "$b/a" > "$work/a.tar"
	is "$(tar -tf "$work/a.tar" | wc -l)" 9
	mkdir "$work/out" "$other/copy"
	tar -C "$work/out" -xf "$work/a.tar"
	cmp "$work/out/dir/random" "$b/a/dir/random"
	is "$(import_to "$other/copy" < "$work/a.tar")" "9 nodes in 1 transaction"
	is "$(tell "$b/copy")" "$(tell "$b/a")"
	# Files that are there get the contents, and stay the same files.
	long=$(attribute instance "$b/copy/nothing")
	echo more > "$b/copy/nothing"
	is "$(import_to "$b/copy" --json < "$work/a.tar" | tr -d ' \n')" \
		'{"nodes":6,"transactions":1}'
	is "$(stat -c %s "$other/copy/nothing") $(attribute instance "$b/copy/nothing")" "0 $long"
}

# Whatever the delay of their locks is, and of that of the directory.
case_delays_of_locks() {
	mkdir "$b/delays" "$b/delays2"
	: > "$b/delays/f"
	: > "$b/delays/g"
	: > "$b/delays/usual"
	setfattr -n user.ls.lock_delay -v 7 "$b/delays" "$b/delays/f"
	setfattr -n user.ls.lock_delay -v 0 "$b/delays/g"
	export_of "$b/delays" | import_to "$other/delays2" > "$work/said"
	is "$(attribute lock_delay "$b/delays2/f")" 7
	is "$(attribute lock_delay "$b/delays2/g")" 0
	is "$(attribute lock_delay "$b/delays2/usual")" 15
	rm "$work/said"
}

# Directories in which the importer may not make anything, in the end.
case_rights_that_others_have() {
	mkdir -p "$b/theirs/dir/own" "$b/theirs2"
	echo ann > "$m/acl/ann"
	echo x > "$b/theirs/dir/f"
	echo x > "$b/theirs/dir/own/g"
	setfattr -n user.ls.lock_slots -v 3 "$b/theirs/dir/own/g"
	setfattr -n user.ls.quota.nodes -v 9 "$b/theirs/dir/own"
	for i in "$b/theirs/dir/own/g" "$b/theirs/dir/f" "$b/theirs/dir"; do
		setfattr -n user.ls.acl.read -v admin "$i"
		setfattr -n user.ls.acl.write -v ann "$i"
		setfattr -n user.ls.acl.change -v ann "$i"
	done
	is "$(export_of "$b/theirs" | import_to "$other/theirs2")" "4 nodes in 1 transaction"
	is "$(tell "$b/theirs2")" "$(tell "$b/theirs")"
}

# An archive without them would give the node those of its new directory.
case_attributes_that_cannot_be_read() {
	local n
	mkdir "$b/unread"
	echo admin > "$m/acl/team"
	echo x > "$b/unread/x"
	setfattr -n user.ls.acl.read -v team "$b/unread/x"
	for n in 1 2 3 4; do
		one_line 1 "Input/output error" strace -q -o "$work/traced" -e trace=getxattr \
			-e inject=getxattr:error=EIO:when=$n "$LSCTL" export "$b/unread"
	done
}

# Where a part of the cell is mounted elsewhere, the paths of the transaction are those of the cell.
case_into_a_part_of_the_cell() {
	mkdir -p "$b/part/conf" "$m/conf" "$work/bound" "$work/new"
	echo keep > "$m/conf/x"
	echo old > "$b/part/conf/x"
	mount --bind "$b/part" "$work/bound"
	echo new > "$work/new/x"
	tar -C "$work/new" -cf - x | import_to "$work/bound/conf"
	umount "$work/bound"
	is "$(cat "$m/conf/x")" keep
	is "$(cat "$b/part/conf/x")" new
}

case_many_transactions() {
	local i
	mkdir "$b/many" "$b/many2"
	for i in $(seq 100); do echo "$i" > "$b/many/$i"; done
	is "$(export_of "$b/many" | import_to "$b/many2")" "100 nodes in 4 transactions"
	is "$(cat "$b/many2"/* | sort -n)" "$(seq 100)"
}

# A transaction that is refused has done nothing, and those before it stay.
case_a_budget_in_the_middle() {
	mkdir "$b/small"
	setfattr -n user.ls.quota.nodes -v 50 "$b/small"
	export_of "$b/many" > "$work/many.tar"
	exits 1 import_to "$b/small" < "$work/many.tar" 2> "$work/err"
	grep -q "transaction 2 of 4 was not done, nor any after it: .*the budget of a directory" \
		"$work/err"
	is "$(find "$other/small" -type f | wc -l)" 32
}

# hostile TEXT: the archive in $work/x.tar is refused with it, and nothing is made.
hostile() {
	exits 1 import_to "$b/none" < "$work/x.tar" 2> "$work/err"
	is "$(wc -l < "$work/err")" 1
	grep -q -- "$1" "$work/err"
	grep -q "nothing is imported" "$work/err"
	is "$(find "$b/none" | wc -l)" 1
}

case_hostile_archives() {
	mkdir "$b/none" "$work/h"
	cd "$work/h"
	echo one > one
	ln -s one link
	head -c 300000 /dev/zero > long
	tar -cf "$work/good.tar" one
	tar -cf "$work/x.tar" one link
	hostile "link is no file and no directory"
	tar -cf "$work/x.tar" one long
	hostile "long is longer than 262144 bytes"
	tar -P -cf "$work/x.tar" one --transform 's,one,../one,'
	hostile "leads elsewhere"
	tar -P -cf "$work/x.tar" "$work/h/one"
	hostile "leads elsewhere"
	head -c 600 "$work/good.tar" > "$work/x.tar"
	hostile "ends too early"
	head -c 1024 "$work/good.tar" > "$work/x.tar"
	hostile "ends too early"
	: > "$work/x.tar"
	hostile "ends too early"
	head -c 2000 /dev/urandom > "$work/x.tar"
	hostile "no tar archive"
	tar --format=pax --pax-option='SCHILY.xattr.user.ls.ttl:=1
setattr /b user.ls.ttl 1' -cf "$work/x.tar" one
	hostile "characters that cannot be given"
	python3 - "$work/good.tar" "$work/x.tar" << 'EOF'
import sys
good = bytearray(open(sys.argv[1], "rb").read())
good[0] ^= 1
open(sys.argv[2], "wb").write(good)
EOF
	hostile "no tar archive"
	cd - > "$work/went"
}

# Directories that are given the rights of the one above cost little more than others. The archive
# has no end, and is refused when it has been read.
case_rights_of_many() {
	limit 120 python3 - "$LSCTL" "$b/none" <<-'EOF'
		import io, resource, subprocess, sys, tarfile
		def seconds(top):
		    archive = io.BytesIO()
		    tar = tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT)
		    for name in ["top"] + [f"top/{n}" for n in range(40000)]:
		        made = tarfile.TarInfo(name)
		        made.type = tarfile.DIRTYPE
		        made.pax_headers = top if name == "top" else {}
		        tar.addfile(made)
		    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
		    done = subprocess.run([sys.argv[1], "import", sys.argv[2]],
		        input=archive.getvalue(), capture_output=True)
		    assert b"ends too early" in done.stderr, done.stderr
		    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
		usual, given = seconds({}), seconds({"SCHILY.xattr.user.ls.acl.write": "team"})
		print(f"# {usual:.2f} s, with rights {given:.2f} s")
		assert given < 3 * usual + 0.2
	EOF
}

case_without_the_right() {
	cell_ctl principal add ann "$("$LSCTL" key generate "$work/ann.key" ann)"
	fusermount3 -u "$m2"
	limit 30 "$LSFS" -o "key=$work/ann.key" "$cell/dc1.conf" "$m2"
	mkdir -p "$b/r/closed"
	echo open > "$b/r/open"
	echo secret > "$b/r/secret"
	echo secret > "$b/r/closed/f"
	setfattr -n user.ls.acl.read -v admin "$b/r/secret" "$b/r/closed" "$b/r/closed/f"
	exits 1 export_of "$other/r" > "$work/r.tar" 2> "$work/err"
	is "$(tar -tf "$work/r.tar" | tr '\n' ' ')" "closed/ open "
	is "$(grep -c "^$other/r/" "$work/err")" 2
	grep -q "^$other/r/secret$" "$work/err"
	fusermount3 -u "$m2"
	mount_second
	exits 1 export_of "$work" 2> "$work/err"
	grep -q "no directory of a mounted cell" "$work/err"
}

# Each of its transactions is done once.
case_imported_while_the_master_dies() {
	mkdir "$b/late"
	export_of "$b/many" > "$work/many.tar"
	(
		kill_replica "$(master)"
		import_to "$other/late" < "$work/many.tar"
	) > "$work/said"
	is "$(cat "$work/said")" "100 nodes in 4 transactions"
	is "$(tell "$b/late")" "$(tell "$b/many")"
	start_missing
}

has_one() { [ "$(ls "$b/pair" | wc -l)" = 1 ]; }

# Two files that are changed together are the same in each export, also while the master dies.
case_one_index() {
	local writer i pair
	mkdir "$b/pair"
	touch "$work/writes"
	# shellcheck disable=SC2016
	(for i in $(seq 400); do
		pair=$(echo "$i" | base64)
		printf 'create /b/pair/%s\nset /b/pair/%s %s\n' "$i" "$i" "$pair"
		[ "$i" = 1 ] || printf 'delete /b/pair/%s\n' $((i - 1))
	done | while [ -e "$work/writes" ] && read -r create && read -r set; do
		if [ "${set##* }" != "$(echo 1 | base64)" ]; then read -r delete; else delete=; fi
		printf '%s\n' "$create" "$set" "$delete" |
			"$LSCTL" --cell dc1 txn > "$work/txn" 2>&1
		read -r -t 0.15 <> "$work/never" || :
	done) &
	writer=$!
	wait_until "it writes" has_one
	for i in 1 2 3 4 5 6; do
		[ $i != 3 ] || kill_replica "$(master)"
		export_of "$other/pair" > "$work/pair.tar"
		is "$(tar -tf "$work/pair.tar" | wc -l)" 1
		is "$(tar -xOf "$work/pair.tar")" "$(tar -tf "$work/pair.tar")"
	done
	rm "$work/writes"
	wait $writer || :
	start_missing
}

case_down() { down; }

run_cases
