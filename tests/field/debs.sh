# shellcheck shell=bash
# The Debian packages of this tree, or those in $LSFS_DEBS. Sourced behind tests/e2e/lib.sh.

for tool in dpkg-buildpackage dh lintian; do
	command -v $tool > /dev/null || skip_all "needs $tool"
done
tree=$work/tree
debs=${LSFS_DEBS:-$build/debs} # with what dpkg-buildpackage leaves beside them

# Built from what `make dist` packs, once for all tests.
build_debs() {
	local sum
	[ -z "${LSFS_DEBS:-}" ] || return 0
	exec 6> "$build/debs.lock" && flock 6
	make -s -C "$build" distdir distdir="$tree" > "$work/out" 2>&1 ||
		{ tail -n 50 "$work/out"; return 1; }
	sum=$(cd "$tree" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
	if [ "$(cat "$debs/sum" 2> /dev/null)" != "$sum" ]; then
		(cd "$tree" && DEB_BUILD_OPTIONS=nocheck limit 900 ./bootstrap package) \
			> "$work/out" 2>&1 || { tail -n 50 "$work/out"; return 1; }
		rm -rf "$debs"
		mkdir "$debs"
		find "$tree/build-package" -maxdepth 1 -type f -exec cp -t "$debs" {} +
		echo "$sum" > "$debs/sum"
	fi
	exec 6>&-
}

# copy_debs DIRECTORY: those that are to be installed.
copy_debs() {
	mkdir -p "$1"
	find "$debs" -name '*.deb' ! -name '*dbgsym*' -exec cp -t "$1" {} +
}

# later_debs DIRECTORY VERSION: the same packages, with a greater number.
later_debs() {
	local deb
	mkdir -p "$1"
	for deb in "$debs"/*.deb; do
		[[ $deb != *dbgsym* ]] || continue
		rm -rf "$work/repacked"
		dpkg-deb -R "$deb" "$work/repacked"
		sed -i "s/^Version: .*/Version: $2/" "$work/repacked/DEBIAN/control"
		dpkg-deb --root-owner-group -b "$work/repacked" "$1" > /dev/null
	done
}
