#!/bin/sh
# `make dist` ships every file that is under version control. Runs in the build directory.
set -u

srcdir=${srcdir:-$(dirname "$0")/..}
git -C "$srcdir" rev-parse --is-inside-work-tree > /dev/null 2>&1 || {
	echo "not under version control"
	exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

echo 1..1
git -C "$srcdir" ls-files | grep -vE '^\.(gitignore|clang-format)$' | sort > "$work/tracked"
if make -s distdir distdir="$work/tree" > "$work/log" 2>&1; then
	(cd "$work/tree" && find . ! -type d) | sed 's,^\./,,' | sort > "$work/shipped"
	missing=$(comm -23 "$work/tracked" "$work/shipped")
else
	missing=$(cat "$work/log")
fi
if [ -z "$missing" ]; then
	echo "ok 1 - make dist ships all files"
else
	echo "not ok 1 - make dist ships all files"
	echo "$missing" | sed 's/^/# missing: /'
	exit 1
fi
