#!/bin/bash
# The tools that people use on files do here what they do elsewhere.
. "$(dirname "$0")/lib.sh"
start || exit 1
cd "$m" || exit 1

case_list() {
	touch "$d/b" "$d/a" "$d/c"
	mkdir "$d/d"
	is "$(ls "$d" | tr '\n' ' ')" "a b c d "
	is "$(ls -l "$d" | awk 'NR > 1 {print $1, $NF}' | tr '\n' ' ')" \
		"-rw-r--r-- a -rw-r--r-- b -rw-r--r-- c drwxr-xr-x d "
	is "$(ls -a "$d" | head -n 2 | tr '\n' ' ')" ". .. "
}

case_list_many() {
	local i
	for i in $(seq 1 300); do : > "$d/file-$i"; done
	is "$(ls "$d" | wc -l)" 300
	is "$(find "$d" -type f | wc -l)" 300
	rm -r "$d"
	[ ! -e "$d" ]
}

case_directories() {
	mkdir -p "$d/a/b/c"
	echo x > "$d/a/b/c/f"
	refused "Directory not empty" rmdir "$d/a"
	rm -r "$d/a"
	refused "No such file or directory" ls "$d/a"
	mkdir "$d/e"
	rmdir "$d/e"
	refused "No such file or directory" rmdir "$d/e"
	refused "File exists" mkdir "$d"
}

case_mv() {
	echo one > "$d/a"
	mv "$d/a" "$d/b"
	is "$(cat "$d/b")" one
	[ ! -e "$d/a" ]
	echo two > "$d/c"
	mv "$d/c" "$d/b"
	is "$(cat "$d/b")" two
	is "$(ls "$d")" b
	mkdir "$d/dir"
	mv "$d/b" "$d/dir/"
	is "$(cat "$d/dir/b")" two
}

case_mv_of_a_directory_copies() {
	# rename of a directory is EXDEV, so mv copies and removes
	mkdir "$d/a"
	echo x > "$d/a/f"
	is "$(mv "$d/a" "$d/b" 2>&1)" ""
	is "$(cat "$d/b/f")" x
	[ ! -e "$d/a" ]
}

case_cp() {
	head -c 200000 /dev/urandom > "$work/big"
	cp "$work/big" "$d/big"
	cmp "$work/big" "$d/big"
	cp "$d/big" "$d/copy"
	cmp "$d/big" "$d/copy"
	cp -r "$d" "$work/out"
	cmp "$work/out/big" "$work/big"
}

case_cp_p() {
	echo x > "$work/src"
	chmod 644 "$work/src"
	touch -d '2020-01-02 03:04:05.5 UTC' "$work/src"
	cp -p "$work/src" "$d/dst"
	is "$(stat -c %Y "$d/dst")" "$(stat -c %Y "$work/src")"
	cp -p "$d/dst" "$work/back"
	is "$(stat -c %Y "$work/back")" "$(stat -c %Y "$work/src")"
	mkdir "$work/tree"
	cp -p "$work/src" "$work/tree/f"
	cp -rp "$work/tree" "$d/tree"
	is "$(cat "$d/tree/f")" x
}

case_touch() {
	touch "$d/f"
	is "$(stat -c %s "$d/f")" 0
	touch -d '2001-02-03 04:05:06 UTC' "$d/f"
	is "$(stat -c %Y "$d/f")" 981173106
	local before
	before=$(stat -c %Y "$d/f")
	touch "$d/f"
	[ "$(stat -c %Y "$d/f")" -gt "$before" ]
}

case_append() {
	echo one >> "$d/f"
	echo two | tee -a "$d/f" > /dev/null
	is "$(cat "$d/f")" "$(printf 'one\ntwo')"
}

case_sed_i() {
	echo 'hello world' > "$d/f"
	local instance
	instance=$(attribute instance "$d/f")
	sed -i s/world/there/ "$d/f"
	is "$(cat "$d/f")" 'hello there'
	is "$(attribute instance "$d/f")" "$instance"
	is "$(ls "$d")" f
}

# A private file, and a private directory with an executable one, none of whose modes can be had.
private_tree() {
	mkdir -p "$1/dir"
	echo one > "$1/f"
	echo two > "$1/dir/x"
	chmod 600 "$1/f"
	chmod 700 "$1/dir" "$1/dir/x"
	touch -d '2020-01-02 03:04:05 UTC' "$1/f"
}

case_copies_of_private_files() {
	private_tree "$work/private"
	install -m 600 "$work/private/f" "$d/installed"
	install -m 600 "$work/private/f" "$d/installed"
	install -d -m 700 "$d/installed-dir"
	cp -p "$work/private/f" "$d/copied"
	cp -a "$work/private" "$d/tree"
	diff -r "$work/private" "$d/tree"
	rsync -a "$work/private/" "$d/synced/"
	diff -r "$work/private" "$d/synced"
	tar -C "$work" -cpf "$work/private.tar" private
	tar -C "$d" -xpf "$work/private.tar"
	diff -r "$work/private" "$d/private"
	is "$(mv "$work/private" "$d/moved" 2>&1)" ""
	diff -r "$d/tree" "$d/moved"
	refused "Operation not permitted" chmod 600 "$d/copied" # who has not made it
}

# A second run finds nothing to do, whatever was newer. -i prints what it does, -O leaves out the
# times of directories, which are constant.
case_rsync_converges() {
	private_tree "$work/from"
	rsync -rtOi "$work/from/" "$d/"
	is "$(rsync -rtOi "$work/from/" "$d/")" ""
	echo another > "$work/from/f"
	touch -d '2019-01-02 03:04:05 UTC' "$work/from/f"
	is "$(rsync -rtOi "$work/from/" "$d/")" ">f.st...... f"
	is "$(cat "$d/f")" another
	is "$(stat -c %Y "$d/f")" "$(stat -c %Y "$work/from/f")"
	is "$(rsync -rtOi "$work/from/" "$d/")" ""
	echo in-place > "$work/from/f"
	rsync -rtO --inplace "$work/from/" "$d/"
	is "$(rsync -rtOi "$work/from/" "$d/")" ""
	rsync -aO --chmod=D755,F644 "$work/from/" "$d/all/"
	is "$(rsync -aOi --chmod=D755,F644 "$work/from/" "$d/all/")" ""
	rsync -aO "$d/all/" "$work/synced-back/"
	is "$(rsync -aOi "$d/all/" "$work/synced-back/")" ""
}

case_mv_keeps_the_time() {
	echo new > "$d/target"
	echo old > "$d/f"
	touch -d '2001-02-03 04:05:06.789 UTC' "$d/f"
	mv "$d/f" "$d/g"
	is "$(stat -c %.3Y "$d/g")" 981173106.789
	mv -f "$d/g" "$d/target"
	is "$(stat -c %.3Y "$d/target")" 981173106.789
	is "$(cat "$d/target")" old
}

# A time that is yet to come holds for the contents that it was set for.
case_times_far_ahead() {
	local when
	echo one > "$d/f"
	for when in '2100-01-01 UTC' '2262-04-11 23:47:16.854775807 UTC' '2400-01-01 UTC'; do
		touch -d "$when" "$d/f"
		[ "$(stat -c %Y "$d/f")" -gt 4000000000 ]
		echo two >> "$d/f"
		[ "$(stat -c %Y "$d/f")" -lt 4000000000 ]
	done
}

is_later_than() { [ "$(date +%s)" -gt "$1" ]; }

# A change that hides behind the old size and the old time is seen by what compares change times
# (git by the second).
case_a_change_time() {
	local before
	export GIT_DIR=$work/index.git GIT_WORK_TREE=$d
	echo one > "$d/f"
	touch -d '2020-01-02 UTC' "$d/f"
	before=$(stat -c %z "$d/f")
	git init -q
	git add f
	tar -C "$d" -g "$work/snapshot" -cf "$work/first.tar" .
	wait_until "the next second" is_later_than "$(stat -c %Z "$d/f")"
	echo two > "$d/f"
	touch -d '2020-01-02 UTC' "$d/f"
	[[ $(stat -c %z "$d/f") > $before ]]
	[[ $(stat -c %y "$d/f") == 2020-01-02* ]]
	is "$(git diff --name-only)" f
	tar -C "$d" -g "$work/snapshot" -cf "$work/second.tar" .
	is "$(tar -xOf "$work/second.tar" ./f)" two
	before=$(stat -c %z "$d/f")
	setfattr -n user.ls.acl.write -v admin "$d/f"
	[[ $(stat -c %z "$d/f") > $before ]]
	before=$(stat -c %z "$d/f")
	mv "$d/f" "$d/g"
	[[ $(stat -c %z "$d/g") > $before ]]
}

case_tar_with_attributes() {
	mkdir "$d/src" "$d/out"
	echo a > "$d/src/a"
	tar -C "$d" --xattrs -cf "$work/x.tar" src
	tar -C "$d/out" --xattrs -xf "$work/x.tar" # it warns of what can only be read
	diff -r "$d/src" "$d/out/src"
	[ "$(attribute instance "$d/src/a")" != "$(attribute instance "$d/out/src/a")" ]
}

# These tools copy modes and times, not the attribute: each copy outlives its source.
case_copies_of_an_ephemeral_file_stay() {
	local file
	mkdir "$d/src" "$d/tar" "$d/by"
	exec 9> "$d/src/e"
	echo here >&9
	setfattr -n user.ls.ephemeral -v 1 "$d/src/e"
	sync "$d/src/e"
	[ -k "$d/src/e" ]
	cp "$d/src/e" "$d/by/cp"
	cp -p "$d/src/e" "$d/by/cp-p"
	cp -rp "$d/src" "$d/by/cp-rp"
	rsync -a "$d/src" "$d/by/rsync"
	tar -C "$d" -cpf "$work/e.tar" src
	tar -C "$d/tar" -xpf "$work/e.tar"
	install -m 1644 "$d/src/e" "$d/by/install"
	python3 -c "import shutil, sys; shutil.copyfile(*sys.argv[1:])" "$d/src/e" "$d/by/python"
	cp -p "$d/src/e" "$work/outside"
	exec 9>&-
	wait_until "the source is gone" test ! -e "$d/src/e"
	cp -p "$work/outside" "$d/by/back"
	for file in by/{cp,cp-p,cp-rp/e,rsync/src/e,install,python,back} tar/src/e; do
		is "$(cat "$d/$file")" here
		is "$(attribute ephemeral "$d/$file")" 0
		[ ! -k "$d/$file" ]
	done
}

# A copied attribute counts like one that setfattr sets: the copy ends with its last close. A 0 is
# not set, and neither is a 1 on a file that nobody has open, as tar does it.
case_copied_attributes_make_a_copy_ephemeral() {
	echo permanent > "$d/p"
	cp -a "$d/p" "$d/p2"
	is "$(attribute ephemeral "$d/p2")" 0
	exec 9> "$d/e"
	echo here >&9
	setfattr -n user.ls.ephemeral -v 1 "$d/e"
	sync "$d/e"
	cp -a "$d/e" "$d/copy"
	wait_until "the copy is gone" test ! -e "$d/copy"
	tar -C "$d" --xattrs -cf "$work/x.tar" e
	mkdir "$d/out"
	tar -C "$d/out" --xattrs -xf "$work/x.tar"
	exec 9>&-
	wait_until "the source is gone" test ! -e "$d/e"
	is "$(cat "$d/out/e")" here
	is "$(cat "$d/p2")" permanent
}

# cp makes directories with the mode of the source, tar and rsync set it afterwards.
case_copies_of_an_ephemeral_directory() {
	mkdir "$d/out"
	python3 -c "import os, sys; os.mkdir(sys.argv[1], 0o1755)" "$d/dir"
	echo x > "$d/dir/f"
	cp -r "$d/dir" "$d/out/cp"
	rsync -a "$d/dir" "$d/out/"
	tar -C "$d" -cf "$work/d.tar" dir
	mkdir "$d/out/tar"
	tar -C "$d/out/tar" -xf "$work/d.tar"
	rm "$d"/out/{cp,dir,tar/dir}/f
	wait_until "the copy by cp is gone" test ! -e "$d/out/cp"
	[ -d "$d/out/dir" ]
	[ -d "$d/out/tar/dir" ]
}

case_mknod_of_a_file() {
	python3 - "$d" <<-'P'
		import os, stat, sys
		path = sys.argv[1] + "/f"
		os.mknod(path, 0o600 | stat.S_IFREG)
		os.chmod(path, 0o600)
		assert os.stat(path).st_size == 0 and stat.S_ISREG(os.stat(path).st_mode)
		for kind, name in ((stat.S_IFREG, "f"), (stat.S_IFIFO, "pipe"),
		                   (stat.S_IFSOCK, "socket"),
		                   (stat.S_IFREG | stat.S_ISVTX, "ephemeral")):
		    try:
		        os.mknod(sys.argv[1] + "/" + name, 0o600 | kind)
		        sys.exit(name + " was made")
		    except FileExistsError:
		        assert name == "f"
		    except PermissionError:
		        assert name != "f"
		assert os.listdir(sys.argv[1]) == ["f"]
	P
}

# A random walk of one process; its seed repeats it.
case_one_file_is_as_on_a_local_disk() {
	local seed
	mkdir "$work/disk"
	for seed in 1 2 19790 $RANDOM; do
		limit 60 python3 "$(dirname "$script")/same_as_elsewhere.py" \
			"$d" "$work/disk" $seed 300
	done
}

# Its locks on byte ranges cannot be had: so it must be told to lock in another way.
case_sqlite() {
	local text='insert into t values(1); select count(*) from t'
	refused "locked" sqlite3 "$d/plain.db" 'create table t(a)'
	sqlite3 "file:$d/dotfile.db?vfs=unix-dotfile" 'create table t(a)'
	is "$(sqlite3 "file:$d/dotfile.db?vfs=unix-dotfile" "$text")" 1
	is "$(sqlite3 "file:$d/dotfile.db?vfs=unix-dotfile" "$text")" 2
	local i
	sqlite3 "file:$d/flock.db?nolock=1" 'create table t(a)'
	for i in 1 2 3 4; do
		flock "$d/flock.db.lock" sqlite3 "file:$d/flock.db?nolock=1" "$text" > "$work/$i" &
	done
	wait
	is "$(sort -n "$work"/[1234] | tr '\n' ' ')" "1 2 3 4 "
}

case_tail_f() {
	echo one > "$d/f"
	tail -n +1 -f --sleep-interval=0.05 "$d/f" > "$work/tail" &
	local tail=$!
	wait_until "tail shows one" grep -q one "$work/tail"
	echo two >> "$d/f"
	wait_until "tail shows two" grep -q two "$work/tail"
	kill $tail
	is "$(cat "$work/tail")" "$(printf 'one\ntwo')"
}

case_dd_and_truncate() {
	dd if=/dev/zero of="$d/f" bs=1k count=3 conv=fsync status=none
	is "$(stat -c %s "$d/f")" 3072
	truncate -s 10 "$d/f"
	is "$(stat -c %s "$d/f")" 10
	truncate -s 20 "$d/f"
	is "$(stat -c %s "$d/f")" 20
	printf abc | dd of="$d/f" bs=1 seek=5 conv=notrunc status=none
	cmp "$d/f" <(head -c 5 /dev/zero; printf abc; head -c 12 /dev/zero)
}

case_stat_and_df() {
	echo 12345 > "$d/f"
	is "$(stat -c '%s %h %F' "$d/f")" '6 1 regular file'
	is "$(stat -c '%F' "$d")" directory
	is "$(stat -c %i "$d/f")" "$(attribute instance "$d/f")"
	df "$m" > /dev/null
	[ "$(stat -f -c %b "$m")" -gt 0 ]
	[ "$(df --output=itotal "$m" | tail -n 1)" -gt 0 ]
}

case_inode_numbers_are_never_reused() {
	local first second
	touch "$d/f"
	first=$(stat -c %i "$d/f")
	rm "$d/f"
	touch "$d/f"
	second=$(stat -c %i "$d/f")
	[ "$second" -gt "$first" ]
}

case_editors_save() {
	printf 'one\ntwo\n' > "$d/f"
	ed -s "$d/f" <<< $'s/two/three/\nw\nq'
	is "$(cat "$d/f")" "$(printf 'one\nthree')"
	vim.tiny -u NONE -es -c '%s/three/four/' -c wq "$d/f"
	is "$(cat "$d/f")" "$(printf 'one\nfour')"
	is "$(ls -A "$d")" f
}

case_names() {
	local name
	for name in 'with space' '*' '-dash' 'ümlaut' 'a:b' $'\xff\xfe'; do
		echo x > "$d/$name"
		is "$(cat -- "$d/$name")" x
		rm -- "$d/$name"
	done
	refused "Invalid argument" touch "$d/"$'new\nline'
	refused "Invalid argument" mkdir "$d/"$'tab\there'
	touch "$d/$(printf 'n%.0s' $(seq 255))"
	refused "File name too long" touch "$d/$(printf 'n%.0s' $(seq 256))"
}

case_path_limit() {
	local path=$d part
	part=$(printf 'p%.0s' $(seq 200))
	while [ $((${#path} - ${#m} + 201)) -le 1024 ]; do
		path=$path/$part
		mkdir "$path"
	done
	local left=$((1024 - (${#path} - ${#m}) - 1))
	touch "$path/$(printf 'x%.0s' $(seq $left))"
	refused "File name too long" touch "$path/$(printf 'x%.0s' $(seq $((left + 1))))"
}

case_refused_kinds() {
	touch "$d/f"
	refused "Operation not permitted" ln "$d/f" "$d/hard"
	refused "Operation not permitted" ln -s f "$d/soft"
	refused "Operation not permitted" mkfifo "$d/fifo"
	is "$(ls "$d")" f
}

case_exec_is_refused() {
	printf '#!/bin/sh\necho ran\n' > "$d/script"
	refused "Permission denied" "$d/script"
	is "$(sh "$d/script")" ran
}

case_chmod_and_chown() {
	touch "$d/f"
	chmod 644 "$d/f"
	chmod u+x "$d/f"
	chmod +t "$d/f"
	is "$(attribute ephemeral "$d/f")" 0
	refused "Operation not permitted" chmod 000 "$d/f"
	refused "Operation not permitted" chmod u-w "$d/f"
	chown "$(id -u):$(id -g)" "$d/f"
	refused "Operation not permitted" chown 12345 "$d/f"
}

case_file_limit() {
	head -c 262144 /dev/zero > "$d/f"
	is "$(stat -c %s "$d/f")" 262144
	refused "File too large" dd if=/dev/zero of="$d/f" bs=1 seek=262144 count=1 conv=notrunc
	refused "File too large" truncate -s 262145 "$d/f"
	is "$(stat -c %s "$d/f")" 262144
	refused "File too large" bash -c "head -c 300000 /dev/zero > '$d/g'"
}

case_cell_directory() {
	[ -d "$m/.cell" ]
	is "$(ls -a "$m" | grep -c '^\.cell$')" 0
	is_in_state "$m" safe
	grep -q '^session: ' "$m/.cell/status"
	grep -q '^epoch: ' "$m/.cell/status"
	tail -c 30 "$m/.cell/status" | grep -q '^principal: '
	dd if="$m/.cell/status" bs=9 skip=1 status=none | grep -q '^principal: '
	tail -c 200 "$m/.cell/metrics" | grep -q .
	flock "$d/locked" dd if="$m/.cell/locks" bs=6 skip=1 status=none | grep -q '^lock: '
	local rc=0
	bash -c "echo x > '$m/.cell/status'" 2> /dev/null || rc=$?
	[ $rc -ne 0 ]
	refused "Operation not permitted" rmdir "$m/.cell"
	refused "File exists" mkdir "$m/.cell"
	refused "Operation not permitted" mkdir "$m/.cell/d"
	refused "Operation not permitted" touch "$m/.cell/f"
}

run_cases
