#!/bin/bash
# Names in order: lsctl new on two mounts, while masters are killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

new() { limit 60 "$LSCTL" new "$@"; }

case_one_after_the_other() {
	local theirs=$m2/${d##*/}
	mkdir "$d/q"
	is "$(new "$d/q/job-")" "$d/q/job-0000000000"
	is "$(new "$theirs/q/job-")" "$theirs/q/job-0000000001"
	touch "$d/q/0000000002"
	is "$(cd "$d/q" && new "")" 0000000003
	rm "$theirs"/q/*
	is "$(new "$d/q/job-")" "$d/q/job-0000000004"
	one_line 1 "No such file" "$LSCTL" new "$d/nowhere/job-"
	one_line 1 "not in a directory of a mounted cell" "$LSCTL" new "$work/job-"
	one_line 1 "File name too long" "$LSCTL" new "$d/q/$(printf '%0250d' 0)"
	one_line 2 "needed" "$LSCTL" new --ephemeral "$d/q/job-"
	one_line 2 "only with" "$LSCTL" new "$d/q/job-" -- true
}

# What is created while a master dies is created once, and no number is missing or there twice.
case_many_at_once() {
	local i pids=() old
	mkdir "$d/q"
	for i in 1 2 3 4; do
		local at=$d
		[ $((i % 2)) = 0 ] || at=$m2/${d##*/}
		for _ in {1..25}; do new "$at/q/$i-" || exit; done > "$work/made-$i" &
		pids+=($!)
	done
	wait_until "some are there" has_entries "$d/q" 10
	old=$(master)
	kill_replica "$old"
	wait "${pids[@]}"
	start_replica "$old"
	is "$(cat "$work"/made-[1-4] | sed 's/.*-//' | sort)" "$(seq -f %010.0f 0 99)"
	is "$(ls "$d/q" | sed 's/.*-//' | sort)" "$(seq -f %010.0f 0 99)"
	for i in 1 2 3 4; do sort -c "$work/made-$i"; done
}
has_entries() { [ "$(ls "$1" | wc -l)" -ge "$2" ]; }

case_there_while_a_command_runs() {
	local theirs=$m2/${d##*/} runs
	mkdir "$d/q"
	is "$(new --ephemeral "$d/q/m-" -- sh -c 'stat -c %n "$LS_NEW"' | xargs)" \
		"$d/q/m-0000000000 $d/q/m-0000000000"
	wait_until "it has gone" is_empty "$theirs/q"
	"$LSCTL" new --ephemeral "$d/q/m-" -- sleep 60 > "$work/out" &
	runs=$!
	wait_until "the member is there" test -e "$theirs/q/m-0000000001"
	kill_replica "$(master)"
	start_missing
	is "$(ls "$theirs/q")" m-0000000001
	kill -9 $runs
	wait_until "the member has gone" is_empty "$theirs/q"
	exits 127 new --ephemeral "$d/q/m-" -- /no/such/program > "$work/out" 2> "$work/err"
	wait_until "that has gone, too" is_empty "$theirs/q"
}
is_empty() { [ -z "$(ls "$1")" ]; }

case_down() { down; }

run_cases
