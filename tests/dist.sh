#!/bin/sh
# `make dist` ships every file that is under version control; the machine's directories are those
# that configure is given. Runs in the build directory.
set -u

srcdir=${srcdir:-$(dirname "$0")/..}
git -C "$srcdir" rev-parse --is-inside-work-tree > /dev/null 2>&1 || {
	echo "not under version control"
	exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

echo 1..2
bad=0
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
	bad=1
fi

mkdir "$work/build"
configure=$(cd "$srcdir" && pwd)/configure
# What it has found out about this machine it need not find out again.
grep '^ac_cv_' config.log | grep -v '^ac_cv_env_' > "$work/cache"
if (cd "$work/build" && "$configure" --quiet --cache-file="$work/cache" --sysconfdir=/a \
	--localstatedir=/b --runstatedir=/c) > "$work/log" 2>&1 &&
	[ "$(sed -n 's/^#define \(SYSCONF\|LOCALSTATE\|RUNSTATE\)DIR //p' "$work/build/config.h" |
		sort | xargs)" = "/a /b /c" ] &&
	! grep -rnE '"[^"]*/(etc|var|run)/[^"]*lsfs' "$srcdir/cell" "$srcdir/fs" "$srcdir/ctl" \
		--include='*.[ch]' > "$work/log"; then
	echo "ok 2 - configure says where the machine's directories are"
else
	echo "not ok 2 - configure says where the machine's directories are"
	sed 's/^/# /' "$work/log"
	bad=1
fi
exit $bad
