#!/bin/bash
# lsctl wait: a script on one mount waits for what another one does, also over a fail-over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
}

elsewhere() { echo "$m2/${d##*/}"; }

# awaits NAME OPTION...: in the background, on the other mount.
awaits() {
	local name=$1
	shift
	"$LSCTL" wait --wait 60 "$(elsewhere)/$name" "$@" 2> "$work/wait.out" &
	waiting=$!
	wait_until "it waits" follows_events
}
follows_events() { readlink "/proc/$waiting/fd/"* 2> "$work/no" | grep -q '/\.cell:events$'; }
# What has happened is not what is waited for: it has a second to end wrongly.
still_waits() {
	sleep 1
	kill -0 $waiting
}

case_until_it_is_there() {
	awaits sub/dir/f
	mkdir -p "$d/sub/dir"
	still_waits
	touch "$d/sub/dir/f"
	wait $waiting
	limit 20 "$LSCTL" wait "$(elsewhere)/sub/dir/f"
}

case_until_it_is_gone() {
	touch "$d/f"
	awaits f --absent
	rm "$d/f"
	wait $waiting
}

# It comes and goes, and so does its directory, between any two calls of those that wait.
case_until_what_comes_and_goes_is_gone() {
	local i
	limit 700 python3 - "$d/sub" <<-'P' &
		import os, sys
		while True:
		    os.mkdir(sys.argv[1])
		    for name in range(20):
		        os.close(os.open(sys.argv[1] + "/f", os.O_WRONLY | os.O_CREAT))
		        os.unlink(sys.argv[1] + "/f")
		    os.rmdir(sys.argv[1])
	P
	for ((i = 0; i < 30; i++)); do
		is "$(limit 20 "$LSCTL" wait "$(elsewhere)/sub/f" --absent 2>&1; echo $?)" 0
	done
	kill %%
}

# Who may not read the directory may look into it.
case_in_a_directory_that_may_not_be_read() {
	local m3=$work/mnt3 what
	mkdir "$m3"
	"$LSCTL" key generate "$work/guest.key" guest > "$work/guest.pub"
	cell_ctl principal add guest "$(cat "$work/guest.pub")"
	limit 30 "$LSFS" -o "key=$work/guest.key" "$conf" "$m3" 2> "$work/no"
	echo admin > "$m/acl/ours"
	setfattr -n user.ls.acl.read -v ours "$d"
	touch "$d/goes" "$m/comes"
	refused "Permission denied" ls "$m3/${d##*/}"
	for what in "goes --absent" "comes"; do
		# shellcheck disable=SC2086 # words
		"$LSCTL" wait --wait 20 "$m3/${d##*/}"/$what 2> "$work/wait.out" &
		waiting=$!
		wait_until "it waits" follows_events
		if [ "$what" = comes ]; then mv "$m/comes" "$d"; else rm "$d/goes"; fi
		wait $waiting || { cat "$work/wait.out"; return 1; }
	done
	limit 20 "$LSCTL" wait "$m3/${d##*/}/goes" --free

	# Nor has it to be allowed to read the file, except for its contents.
	setfattr -n user.ls.acl.read -v ours "$d/comes"
	refused "Permission denied" cat "$m3/${d##*/}/comes"
	limit 20 "$LSCTL" wait "$m3/${d##*/}/comes"
	exec 8<> "$d/comes"
	flock 8
	"$LSCTL" wait --wait 20 "$m3/${d##*/}/comes" --free &
	waiting=$!
	wait_until "it waits" follows_events
	flock -u 8
	wait $waiting
	exec 8>&-
	one_line 1 "comes: Permission denied" "$LSCTL" wait "$m3/${d##*/}/comes" --contents x
	umount "$m3"
	rmdir "$m3"
}

# Whoever has an ephemeral file open keeps it; those that wait for its end do not.
case_several_until_a_process_is_gone() {
	local at owner one waits=()
	"$LSCTL" new --ephemeral "$d/alive-" -- sh -c 'echo $$ > "$0"; exec sleep 60' \
		"$work/owner" > "$work/no" &
	owner=$!
	wait_until "it runs" test -s "$work/owner"
	for at in "$d" "$d" "$(elsewhere)" "$(elsewhere)"; do
		"$LSCTL" wait --wait 20 "$at"/alive-* --absent &
		waiting=$!
		waits+=($waiting)
		wait_until "it waits" follows_events
	done
	kill "$(cat "$work/owner")"
	exits 143 wait $owner
	for one in "${waits[@]}"; do wait "$one"; done
}

case_contents() {
	echo ready > "$d/f"
	limit 20 "$LSCTL" wait "$(elsewhere)/f" --contents ready
	awaits f --contents go
	printf 'go on' > "$d/f"
	still_waits
	kill_replica "$(master)"
	printf go > "$d/f"
	wait $waiting
	start_missing
}

case_free() {
	limit 20 "$LSCTL" wait "$(elsewhere)/nothing" --free
	flock "$d/f" sleep 3 &
	local holder=$!
	wait_until "it has the lock" held f exclusive
	awaits f --free
	wait $holder
	wait $waiting
}

# What is waited for happens while there is no master.
case_over_a_fail_over() {
	local old waits=() pid
	touch "$d/gone" "$d/locked"
	setfattr -n user.ls.lock -v exclusive "$d/locked"
	awaits new/dir/f
	waits+=($waiting)
	awaits gone --absent
	waits+=($waiting)
	awaits locked --free
	waits+=($waiting)
	old=$(master)
	kill_replica "$old"
	mkdir -p "$d/new/dir"
	touch "$d/new/dir/f"
	rm "$d/gone"
	setfattr -n user.ls.lock -v free "$d/locked"
	for pid in "${waits[@]}"; do wait "$pid"; done
	start_replica "$old"
}

held() { [ "$(attribute lock "$d/$1")" = "$2" ]; }

# It is noticed by its event, not only at the next look.
case_at_once() {
	local i before spent=0
	echo 0 > "$d/n"
	for ((i = 1; i <= 6; i++)); do
		"$LSCTL" wait --wait 20 "$(elsewhere)/n" --contents $i &
		waiting=$!
		wait_until "it waits" follows_events
		before=${EPOCHREALTIME/./}
		echo $i > "$d/n"
		wait $waiting
		spent=$((spent + ${EPOCHREALTIME/./} - before))
	done
	[ $spent -lt 2500000 ] || { say "$spent us for 6 rounds"; return 1; }
}

# What happens to the mount is no news of the cell: the path is not there, and not gone either.
case_the_mount_goes() {
	local what name m3=$work/mnt3
	mkdir "$m3"
	for what in --absent --free ""; do
		limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m3" 2> "$work/no"
		echo x > "$m3/here"
		setfattr -n user.ls.lock -v exclusive "$m3/here"
		name=bare
		[ -z "$what" ] || name=here
		"$LSCTL" wait --wait 20 "$m3/$name" $what 2> "$work/wait.out" &
		waiting=$!
		wait_until "it waits" follows_events
		umount -l "$m3"
		touch "$m3/bare"
		exits 1 wait $waiting
		is "$(cat "$work/wait.out")" "lsctl: $m3/$name: not in a mounted cell"
		rm "$m3/bare"
		wait_until "there is no daemon" eval '[ -z "$(daemon_of "$m3")" ]'
	done
}

# each_replica SIGNAL
each_replica() { kill -"$1" "$(replica 1)" "$(replica 2)" "$(replica 3)"; }

# A call that the cell does not answer takes no longer than what is left.
case_a_limit_in_jeopardy() {
	local m4=$work/mnt4
	leases 1s 2s
	mkdir "$m4"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m4"
	touch "$m4/there"
	each_replica STOP
	wait_until "the cell is silent" is_in_state "$m4" jeopardy
	exits 1 limit 5 "$LSCTL" wait -w 1 "$m4/there" --absent
	exits 1 limit 5 "$LSCTL" wait -w 1 "$m4/there" --contents x
	exits 1 limit 5 "$LSCTL" wait -w 1 "$m4/there" --free
	exits 1 limit 5 "$LSCTL" wait -w 0 "$m4/there"
	each_replica CONT
	umount "$m4"
}

case_an_outage() {
	local m5=$work/mnt5
	leases 1s 2s
	mkdir "$m5"
	limit 30 "$LSFS" -o "key=$cell/admin.key,grace=2" "$conf" "$m5"
	"$LSCTL" wait --wait 60 "$m5/new" 2> "$work/wait.out" &
	waiting=$!
	wait_until "it waits" follows_events
	each_replica STOP
	wait_until "the cell is given up" is_in_state "$m5" expired
	still_waits
	each_replica CONT
	wait_until "there is a file" limit 5 touch "$m/new"
	wait $waiting
	is "$(cat "$work/wait.out")" ""
	umount "$m5"
}

case_refusals() {
	touch "$d/f"
	exits 1 "$LSCTL" wait --wait 0.5 "$(elsewhere)/f" --absent
	exits 1 limit 10 "$LSCTL" wait --wait 0 "$(elsewhere)/f" --absent
	exits 0 limit 10 "$LSCTL" wait --wait 0 "$(elsewhere)/f"
	exits 2 "$LSCTL" wait "$(elsewhere)/f" --absent --free
	one_line 1 "not in a mounted cell" "$LSCTL" wait "$work" --absent
	one_line 1 "not in a mounted cell" "$LSCTL" wait "$work/nothing"
}

run_cases
