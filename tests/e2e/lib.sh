# shellcheck shell=bash
# What every end-to-end test stands on: a private cell in one process on a private mount point,
# cases that run one after another in subshells, and checks that say what they saw.
#
# A test is a bash script that sources this file, defines functions named case_*, and ends with
# `run_cases`. Each case runs under `set -e` in a subshell, in an empty directory "$d" of the mount
# "$m". The files of "$work" that are named in "$scratch" are empty then: what another case had in
# them is not taken for what a command in the background has written. Output is TAP. Every wait has
# an end: a command that hangs is a failure, not a hang.
#
# The test has a network and mounts of its own: its ports are nobody else's, scripts can run side by
# side, and nothing that it mounts outlives its last process.

set -u
export LC_ALL=C
build=${LSFS_BUILD:-$PWD}
LSFS=$build/fs/lsfs
LSCELL=$build/cell/lscell
LSCTL=$build/ctl/lsctl
TOOLS=$build/tests/e2e
script=$(realpath "$0")

say() { printf '# %s\n' "$*"; }

skip_all() {
	echo "1..0 # SKIP $*"
	echo "$(basename "$script"): skipped: $*" >&2
	exit 77
}

[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
[ "$(id -u)" = 0 ] || skip_all "needs root, to mount"
command -v ip > /dev/null || skip_all "needs ip"
if [ -z "${LSFS_APART:-}" ]; then
	# The interpreter itself: a wrapper that looks for it is slower than most of what it runs.
	PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
	unshare --net --mount true || skip_all "cannot make namespaces"
	LSFS_APART=1 exec unshare --net --mount -- "$script" "$@"
fi
ip link set lo up || exit 1
# The machine's own mounts are not the tests': some abort each mount that they see.
awk '/ - fuse\.lsfs / { print $5 }' /proc/self/mountinfo | tac |
	while read -r place; do umount -l "$(printf %b "$place")"; done
for place in /run/lsfs /run/netns; do
	mkdir -p -m 700 $place && mount -t tmpfs -o mode=700 apart $place || exit 1
done

work=$(mktemp -d "${TMPDIR:-/tmp}/lsfs-e2e.XXXXXX") || exit 1
# In memory, unless the test is about disks and how long they take: ON_DISK=yes.
[ -n "${ON_DISK:-}" ] || mount -t tmpfs -o mode=700 apart "$work" || exit 1
m=$work/mnt
data=$work/data
mkdir "$m"
mkfifo "$work/never" # nobody writes into it
export XDG_RUNTIME_DIR=$work/run
mkdir "$XDG_RUNTIME_DIR"

# AddressSanitizer keeps what was freed, and as much again for itself.
is_sanitized() { grep -qaE '__(asan|tsan)_init' "$LSFS"; }

# not COMMAND...: the command fails. Bash does not end a case at a `!` that fails.
not() { ! "$@"; }

# limit SECONDS COMMAND...: a hang becomes exit status 124 or 137.
limit() { timeout -k 1 "$@"; }

# start [OPTION...]: the cell in $data, mounted on $m; its daemon's process id is in $daemon.
start() {
	limit 20 "$LSFS" "$@" --standalone "$data" "$m" || return 1
	daemon=$(daemon_of "$m")
}

# program.go becomes $work/go/program.
build_go() {
	mkdir "$work/go"
	cp "$(dirname "$script")/program.go" "$work/go/"
	(cd "$work/go" && HOME=$work/go GO111MODULE=off GOCACHE=$work/go/cache \
		limit 120 go build -o program program.go)
}

# The daemon behind a mount point: the process that was started for it.
daemon_of() { pgrep -f -- "lsfs .*$1\$" | head -n 1; }

stop() {
	limit 10 umount "$m" && wait_until "the daemon has left" gone "$daemon"
}

# Ended with all its threads, or a zombie that its parent has not waited for: the first thread can
# be one while another still has what they have open.
gone() { ! grep -q '^State:.[^ZX]' "/proc/$1/task/"*/status 2> /dev/null; }

# pause_s SECONDS: without a process for it. A shell that starts thousands meets a number again that
# an earlier one had, and may wait for the wrong one for ever.
pause_s() { read -r -t "$1" <> "$work/never" || :; }

# wait_until WHAT COMMAND...: an event, not a time; gives up loudly after 20 seconds, or $patience.
# Looks less often as it takes longer: a look may be a program, and the event needs the processor.
wait_until() {
	local what=$1 end=$((SECONDS + ${patience:-20})) pause=1
	shift
	until "$@"; do
		if [ $SECONDS -ge $end ]; then
			say "waited in vain until $what"
			return 1
		fi
		pause_s 0.0$pause
		[ $pause -eq 9 ] || pause=$((pause + 1))
	done
}

# is ACTUAL EXPECTED
is() {
	[ "$1" = "$2" ] || { say "expected: $2"; say "got:      $1"; return 1; }
}

# exits CODE COMMAND...: it ends with this exit status.
exits() {
	local code=$1 rc=0
	shift
	"$@" || rc=$?
	is $rc "$code"
}

# refused TEXT COMMAND...: it fails, and says so with that text.
refused() {
	local text=$1 out rc=0
	shift
	out=$(limit 10 "$@" 2>&1) || rc=$?
	[ $rc -ne 0 ] || { say "not refused: $*"; return 1; }
	[[ $out == *"$text"* ]] || { say "refused with: $out"; return 1; }
}

attribute() { limit 10 getfattr --only-values --absolute-names -n "user.ls.$1" "$2"; }

# session_says NAME MOUNT: a line of its status.
session_says() { sed -n "s/^$1: //p" "$2/.cell/status"; }
session() { session_says session "$1"; }
is_in_state() { [ "$(session_says state "$1")" = "$2" ]; }

# one_line CODE TEXT COMMAND...: exits with CODE and says one line with TEXT.
one_line() {
	local code=$1 text=$2 out rc=0
	shift 2
	out=$(limit 30 "$@" 2>&1) || rc=$?
	is $rc "$code"
	[[ $out == *"$text"* ]] || { say "said: $out"; return 1; }
	is "$(wc -l <<< "$out")" 1
}

# Everything that was started here names $work in its command line.
cleanup() {
	local at
	# shellcheck disable=SC2046 # words
	kill -9 $(jobs -p) $(pgrep -f -- "$work/") 2> /dev/null
	awk -v work="$work/" 'index($5, work) == 1 { print $5 }' /proc/self/mountinfo | tac |
		while read -r at; do umount -l "$at"; done
	mountpoint -q "$work" && umount -l "$work"
	rm -rf "$work"
}
trap cleanup EXIT

# tell_where FILE LINE COMMAND: has failed, and ends the case. A function's caller is told as well.
tell_where() {
	[ "$BASH_SUBSHELL" -le "$level" ] || return 0
	say "$(basename "$1"):$2: $3"
	[[ ${FUNCNAME[1]} == case_* ]] || say "called in line ${BASH_LINENO[1]}"
}

run_cases() {
	local name number=0 failed=0 began took log=$work/log level=$((BASH_SUBSHELL + 1))
	local cases
	cases=$(grep -oE '^case_[a-z0-9_]+' "$script")
	echo "1..$(wc -w <<< "$cases")"
	for name in $cases; do
		number=$((number + 1))
		d=$m/$name
		began=$SECONDS
		(
			set -eE
			trap 'tell_where "${BASH_SOURCE[0]}" $LINENO "$BASH_COMMAND"' ERR
			if mountpoint -q "$m"; then mkdir "$d"; fi
			for file in ${scratch:-}; do rm -f "$work/$file" && : > "$work/$file"; done
			"$name"
		) > "$log" 2>&1 < /dev/null
		if [ $? -eq 0 ]; then
			took=$((SECONDS - began))
			[ $took -lt 5 ] || say "took $took s"
			echo "ok $number - ${name#case_}"
		else
			failed=1
			echo "not ok $number - ${name#case_}"
			sed 's/^/# /' "$log"
		fi
	done
	exit $failed
}
