# shellcheck shell=bash
# What every end-to-end test stands on: a private cell in one process on a private mount point,
# cases that run one after another in subshells, and checks that say what they saw.
#
# A test is a bash script that sources this file, defines functions named case_*, and ends with
# `run_cases`. Each case runs under `set -e` in a subshell, in an empty directory "$d" of the mount
# "$m". Output is TAP. Every wait has an end: a command that hangs is a failure, not a hang.

set -u
export LC_ALL=C
build=${LSFS_BUILD:-$PWD}
LSFS=$build/fs/lsfs
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

work=$(mktemp -d "${TMPDIR:-/tmp}/lsfs-e2e.XXXXXX") || exit 1
m=$work/mnt
data=$work/data
mkdir "$m"
export XDG_RUNTIME_DIR=$work/run
mkdir "$XDG_RUNTIME_DIR"

# limit SECONDS COMMAND...: a hang becomes exit status 124 or 137.
limit() { timeout -k 1 "$@"; }

# start [OPTION...]: the cell in $data, mounted on $m; its daemon's process id is in $daemon.
start() {
	limit 20 "$LSFS" "$@" --standalone "$data" "$m" || return 1
	daemon=$(daemon_of "$m")
}

# The daemon behind a mount point: the process that was started for it.
daemon_of() { pgrep -f -- "lsfs .*$1\$" | head -n 1; }

stop() {
	limit 10 umount "$m" && wait_until "the daemon has left" gone "$daemon"
}

# Ended, or a zombie that its parent has not waited for.
gone() { ! grep -q '^State:.[^ZX]' "/proc/$1/status" 2> /dev/null; }

# wait_until WHAT COMMAND...: an event, not a time; gives up loudly after 20 seconds, or $patience.
wait_until() {
	local what=$1 end=$((SECONDS + ${patience:-20}))
	shift
	until "$@"; do
		if [ $SECONDS -ge $end ]; then
			say "waited in vain until $what"
			return 1
		fi
		read -r -t 0.01 <> <(:) || :
	done
}

# is ACTUAL EXPECTED
is() {
	[ "$1" = "$2" ] || { say "expected: $2"; say "got:      $1"; return 1; }
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

cleanup() {
	local pid
	for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done
	umount -l "$m" 2>/dev/null
	pid=$(daemon_of "$m")
	[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT

run_cases() {
	local name number=0 failed=0 log=$work/log
	local cases
	cases=$(grep -oE '^case_[a-z0-9_]+' "$script")
	echo "1..$(wc -w <<< "$cases")"
	for name in $cases; do
		number=$((number + 1))
		d=$m/$name
		(
			set -eE
			trap 'say "$(basename "${BASH_SOURCE[0]}"):$LINENO: $BASH_COMMAND"' ERR
			if mountpoint -q "$m"; then mkdir "$d"; fi
			"$name"
		) > "$log" 2>&1 < /dev/null
		if [ $? -eq 0 ]; then
			echo "ok $number - ${name#case_}"
		else
			failed=1
			echo "not ok $number - ${name#case_}"
			sed 's/^/# /' "$log"
		fi
	done
	exit $failed
}
