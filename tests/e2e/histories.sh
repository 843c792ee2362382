#!/bin/bash
# The checker of histories finds what is wrong in each of these, and nothing in the good one.
set -u
export LC_ALL=C
HISTORY=${LSFS_BUILD:-$PWD}/tests/e2e/history
work=$(mktemp -d "${TMPDIR:-/tmp}/lsfs-e2e.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
history=$work/history

# did TYPE PROCESS OPERATION PATH VALUE BEGIN END [GENERATION [EXPECTED [ERROR]]]
did() {
	printf '{"process":%d,"type":"invoke","operation":"%s","path":"%s","time":%d}\n' \
		"$2" "$3" "$4" "$6"
	printf '{"process":%d,"type":"%s","operation":"%s","path":"%s","value":"%s","time":%d,' \
		"$2" "$1" "$3" "$4" "$5" "$7"
	printf '"generation":%d,"expected":"%s","error":"%s"}\n' "${8:-0}" "${9:-}" "${10:-}"
} >> "$history"

number=0 failed=0
report() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		sed 's/^/# /' "$work/out"
		failed=1
	fi
}

# finds TEXT: the history so far is refused for that and for nothing else.
finds() {
	local rc=0
	"$HISTORY" "$history" > "$work/out" 2>&1 || rc=$?
	[ $rc -eq 1 ] && grep -q "^violation: .*$1" "$work/out" &&
		! grep '^violation:' "$work/out" | grep -qv "$1"
	report $? "finds: $1"
	rm "$history"
}

# passes NAME
passes() {
	"$HISTORY" "$history" > "$work/out" 2>&1
	report $? "passes: $1"
	rm "$history"
}

echo 1..31

# ---- registers ----

did ok 1 write r a 10 20
did ok 2 read r a 11 12 1     # while it is written
did ok 1 write r b 30 40
did ok 2 read r a 31 32 1     # the next one is under way
did ok 3 read r b 33 39 2
did info 1 write r c 50 60    # may happen later
did ok 2 read r b 70 80 2
did ok 2 cas r d 81 82 0 b
did ok 3 read r c 90 91 4     # it did
did info 4 write r e 92 93    # it never did
did info 4 cas r f 94 95 0 c
did ok 3 cas r g 96 97 0 f    # the open swap before it did
did fail 3 write r h 98 99
did ok 1 final r g 100 110 6
did ok 2 final r g 100 110 6
passes "a register"

did ok 1 write r a 10 20
did ok 1 write r b 30 40
did ok 2 read r a 50 60
finds "still seen when"

did ok 1 write r a 10 20
did ok 1 write r b 30 60
did ok 2 read r b 40 45
did ok 3 read r a 50 55
finds "still seen when"

did ok 1 write r a 10 20 # and lost
did ok 2 read r 0 30 40
finds "nobody wrote what was seen"

did ok 1 write r a 10 20
did ok 1 read r a 21 22 1
did ok 1 write r b 30 40
did ok 1 write r c 50 60
did ok 2 read r c 70 80 2
finds "2 writes were acknowledged, 0 are open, but 1 versions"

did ok 1 write r a 10 20
did ok 1 read r a 21 22 1
did ok 1 write r b 30 40
did ok 2 read r b 70 80 3
finds "1 writes were acknowledged, 0 are open, but 2 versions"

did ok 1 write r a 10 20
did info 2 write r b 30 31
did ok 1 read r b 40 41
did ok 1 write r c 50 51
did ok 1 read r c 60 61
did ok 1 read r b 70 71
finds "still seen when" # the open write took effect twice

did ok 1 write r a 10 20
did fail 1 write r b 30 40
did ok 1 read r b 50 60
finds "a write that failed was seen"

did ok 1 read r a 10 20
did ok 1 write r a 30 40
finds "seen before it was written"

did ok 1 write r a 10 20
did ok 1 cas r b 30 40 0 a
did ok 2 cas r c 50 60 0 a
finds "two swaps of 'a'"

did ok 1 write r a 10 20
did ok 1 cas r b 30 40 0 a
did ok 2 read r a 50 60
finds "had been swapped for it"

did ok 1 write r a 10 20
did ok 1 write r x 30 40
did ok 2 read r x 41 42
did ok 1 cas r b 30 60 0 a    # x stood between
did ok 2 read r a 25 29
did ok 2 read r b 61 62
finds "still seen when"

did ok 1 write r a 10 20
did ok 1 read r a 21 22 5
did ok 1 write r b 30 40
did ok 1 read r b 41 42 5
finds "version 5 was\|but 0 versions"

did ok 1 write r a 10 20
did ok 1 read r a 21 22 5
did ok 2 read r a 31 32 6
finds "was version 5 and 6\|but 1 versions"

did ok 1 write r a 10 11
did ok 1 read r a 12 13 1
did ok 1 cas r b 20 21 0 a
did info 2 write r c 5 6
did ok 1 read r b 30 31 3
finds "version 1 'a' was swapped for version 3"

did ok 1 rename r a 10 20
did fail 1 rename r b 30 40 0 '' ENOENT
finds "its source was gone"

# ---- appends ----

did ok 1 append l a 10 20
did ok 2 append l b 15 30
did ok 3 tail l '2 b' 16 17
did info 1 append l c 40 50
did info 2 append l d 41 50
did fail 2 append l e 60 61
did ok 3 tail l '4 a' 70 71
did ok 1 final l 'b\na\nd\n' 80 90
passes "appended lines"

did ok 1 append l a 10 20
did ok 1 final l '' 80 90
finds "an acknowledged line is lost"

did info 1 append l a 10 20
did ok 1 final l 'a\na\n' 80 90
finds "appended twice"

did ok 1 append l a 10 20
did ok 1 append l b 30 40
did ok 1 final l 'b\na\n' 80 90
finds "had ended when"

did ok 1 append l a 10 20
did ok 2 tail l 0 30 40
did ok 1 final l 'a\n' 80 90
finds "had ended when" # a stale read of a file that grows

did ok 1 append l a 10 20
did ok 1 final l 'a\nx\n' 80 90
finds "nobody appended"

# ---- counters ----

did ok 1 count n 1 10 20
did info 1 count n '' 30 40
did ok 1 count n 3 50 60
did ok 1 final n 3 80 90
passes "a counter"

did ok 1 count n 1 10 20
did ok 2 count n 1 30 40
did ok 1 final n 1 80 90
finds "increment is lost\|counts 1"

did ok 1 count n 1 10 20
did ok 1 final n 2 80 90
finds "counts 2; 1 increments were acknowledged, 0 are open"

# ---- locks ----

did ok 1 lock k 7 10 20
did ok 1 hold k '' 30 31
did ok 2 lock k 8 15 35
did ok 2 hold k '' 40 41
did ok 3 lock k 9 16 50 # its session ended, nothing proves that it was held
did fail 3 hold k '' 70 71
did ok 4 lock k 10 17 60
did ok 4 hold k '' 65 66
did ok 1 share k 0 70 71
did ok 2 share k 0 70 72
did ok 1 hold k '' 80 81
did ok 2 hold k '' 80 81
passes "locks"

did ok 1 lock k 7 10 20
did ok 2 lock k 8 15 30
did ok 1 hold k '' 40 41
did ok 2 hold k '' 40 41
finds "two holders at once"

did ok 1 share k 0 10 20
did ok 2 lock k 8 15 30
did ok 1 hold k '' 40 41
did ok 2 hold k '' 40 41
finds "two holders at once"

did ok 1 lock k 8 10 20
did ok 2 lock k2 7 30 40
finds "fencing token 7 had ended when 8 began\|fencing token 8 had ended when"

# ---- the end ----

did ok 1 write r a 10 20
did ok 1 final r a 30 40
did info 1 write r b 50 60
did ok 2 final r b 70 80
finds "two mounts differ at the end"

did ok 1 ephemeral e/1 '' 10 20
did ok 1 left e '1' 30 40
finds "ephemeral files are left"

exit $failed
