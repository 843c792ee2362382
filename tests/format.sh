#!/bin/sh
# Every C file reads as clang-format writes it, by the rules in .clang-format. Other versions than
# 14 write some things otherwise: they are not asked.
set -u
export LC_ALL=C

cd "${srcdir:-$(dirname "$0")/..}" || exit 1
clang-format --version 2> /dev/null | grep -q 'version 14\.' || {
	echo "format.sh: skipped: needs clang-format 14"
	exit 77
}
wrong=$(find cell fs ctl tests -name '*.[ch]' |
	xargs -P "$(nproc)" -n 40 clang-format --dry-run 2>&1 |
	sed -n 's/^\([^:]*\.[ch]\):\([0-9]*\):.*/# \1:\2/p' | sort -u)
echo "1..1"
[ -z "$wrong" ] || {
	echo "$wrong"
	echo "not ok 1 - as clang-format writes it (clang-format -i FILE)"
	exit 1
}
echo "ok 1 - as clang-format writes it"
