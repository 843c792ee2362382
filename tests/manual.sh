#!/bin/sh
# The man pages have every option of the programs, every command of lsctl and every attribute. Runs
# in the build directory.
set -u
export LC_ALL=C

srcdir=${srcdir:-$(dirname "$0")/..}
number=0 status=0
echo 1..6

# has PAGE WORD...
has() {
	page=$1
	shift
	number=$((number + 1))
	missing=
	for word in "$@"; do
		sed 's/\\//g' "$srcdir/docs/$page" | grep -qF -e "$word" || missing="$missing $word"
	done
	if [ -z "$missing" ] && [ $# -gt 0 ]; then
		echo "ok $number - $page"
	else
		echo "not ok $number - $page lacks:$missing"
		status=1
	fi
}

options() { "$1" --help | grep -oE -e '--[a-z-]+' | sort -u; }

# shellcheck disable=SC2046 # words
{
	has lsfs.8 $(options fs/lsfs)
	has lsfs.8 $(fs/lsfs --help | sed -nE 's/^      ([a-z_]+=?).*/\1/p')
	has lsfs.8 $(grep -oE '"user\.ls\.[a-z_.]+"' "$srcdir/fs/mount/xattr.c" | tr -d '"')
	has lscell.8 $(options cell/lscell)
	has lsctl.1 $(options ctl/lsctl)
	has lsctl.1 $(ctl/lsctl --help | sed -nE 's/^  ([a-z]+) .*/\1/p')
}
exit $status
