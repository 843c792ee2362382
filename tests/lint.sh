#!/bin/bash
# What compilers do not say: clang-tidy with clang's static analyzer (.clang-tidy), and cppcheck.
# CPPFLAGS: those of the build; the build directory is the current one. LINT=quick leaves out the
# analyzer, which takes most of the time.
set -u

source=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd)
failed=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# judged NUMBER STATUS TEXT: what was found is in the log.
judged() {
	if [ "$2" -eq 0 ]; then
		echo "ok $1 - $3"
	else
		echo "not ok $1 - $3"
		sed 's/^/# /' "$log"
		failed=1
	fi
}

sources() { find "$source/cell" "$source/fs" "$source/ctl" -name '*.c' -print0 | sort -z; }

analyze() {
	local checks=
	[ "${LINT:-}" != quick ] || checks='--checks=-clang-analyzer-*'
	# shellcheck disable=SC2086 # words
	sources | xargs -0 -P "$(nproc)" -n 4 sh -c '
		checks=$1 flags=$2; shift 2; status=0
		for file; do
			clang-tidy --quiet $checks "$file" -- $flags 2> /dev/null || status=1
		done
		exit $status' sh "$checks" "-std=gnu17 $CPPFLAGS"
}

# It knows the system's headers only with the compiler's own definitions.
check() {
	local include definitions
	include=$(cc -E -v - < /dev/null 2>&1 | sed -n '/^#include </,/^End/s/^ /-I/p')
	definitions=$(cc -std=gnu17 -dM -E - < /dev/null |
		sed -nE 's/^#define (__[A-Za-z0-9_]+) ([^ ("]+)$/-D\1=\2/p')
	# shellcheck disable=SC2086 # words
	cppcheck -j "$(nproc)" --quiet --std=c11 --error-exitcode=1 --template=gcc \
		--enable=warning,performance,portability --library=posix \
		--suppressions-list="$source/tests/lint.allow" $CPPFLAGS $include $definitions \
		"$source/cell" "$source/fs" "$source/ctl"
}

echo 1..2
check > "$log" 2>&1
judged 1 $? "cppcheck finds nothing"
analyze > "$log" 2>&1
judged 2 $? "clang-tidy finds nothing"
exit $failed
