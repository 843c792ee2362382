# shellcheck shell=bash
# A bare Debian with the libraries that the packages name: made by debootstrap once, and kept in
# $LSFS_FIELD_ROOT. Sourced before tests/e2e/lib.sh, which leaves the network that it comes from.

bare=${LSFS_FIELD_ROOT:-/var/cache/lsfs-field}/bookworm
bare_has=systemd,systemd-sysv,dbus,iproute2,procps,e2fsprogs,fuse3,attr,libuv1,libjansson4
bare_has+=,libbsd0,libsodium23,libsqlite3-0,libinih1,libxxhash0,libmicrohttpd12

bare_is_made() { [ "$(cat "$bare/done" 2> /dev/null)" = "$bare_has" ]; }

make_bare() {
	rm -rf "$bare"
	timeout -k 1 900 debootstrap --variant=minbase --include="$bare_has" bookworm "$bare" &&
		rm -f "$bare"/var/cache/apt/archives/*.deb && echo "$bare_has" > "$bare/done"
}

# Two tests may come at once.
if [ -z "${LSFS_APART:-}" ] && mkdir -p "${bare%/*}" && exec 6> "$bare.lock" && flock 6; then
	bare_is_made || make_bare > "$bare.log" 2>&1
	exec 6>&-
fi
