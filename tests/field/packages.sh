#!/bin/bash
# The Debian packages: built from what `make dist` packs, installed, used, upgraded, removed and
# purged, in a root directory that is an overlay of this machine's.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/debs.sh"

command -v cc > /dev/null || skip_all "needs cc"
root=$work/root
top=$(dirname "$script")/../..

mkdir "$work/upper" "$work/work" "$root"
mount -t overlay over -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root" ||
	skip_all "cannot mount an overlay of /"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 1
for place in run tmp; do mount -t tmpfs apart "$root/$place" || exit 1; done
mkdir -p "$root/mnt/cell"

# running NAME: the processes of this name that run in there.
running() {
	local pid
	for pid in $(pgrep -x "$1"); do
		[ "$(readlink "/proc/$pid/root")" != "$root" ] || echo "$pid"
	done
}
# shellcheck disable=SC2046 # words
trap 'kill $(running lscell) $(running lsfs) 2> /dev/null; cleanup' EXIT

# inside COMMAND...: as on a machine without a service manager.
inside() { limit 60 chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
install_debs() {
	inside sh -c "dpkg -i $*" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
}
has() { inside test "$@"; }
owner() { inside stat -c '%U %a' "$1"; }

case_build() {
	build_debs
	copy_debs "$root/debs"
	is "$(cd "$root/debs" && printf '%s\n' * | sed 's/_.*//' | sort | xargs)" \
		"lscell lsfs lsfs-dev"
}

case_lintian() {
	is "$(limit 300 lintian --allow-root "$debs"/*.changes 2>&1)" ""
	is "$(ls "$top"/debian/*lintian-overrides 2> /dev/null)" ""
}

case_container_file() {
	local from
	from=$(sed -n 's/^COPY build-package\/\(.*\) .*/\1/p' "$top/docs/Containerfile")
	# shellcheck disable=SC2086 # a pattern
	(cd "$debs" && ls $from)
}

case_install() {
	install_debs '/debs/*.deb'
	is "lsctl $(inside dpkg-query -W -f '${Version}' lsfs)" "$(inside lsctl --version)"
	is "$(inside lscell --version | sed 's/ .*//')" lscell
	is "$(inside /sbin/mount.lsfs --version | sed 's/ .*//')" lsfs
	is "$(inside getent passwd lscell | cut -d : -f 6-)" "/var/lib/lsfs:/usr/sbin/nologin"
	is "$(owner /etc/lsfs)" "root 755"
	is "$(owner /var/lib/lsfs)" "root 755"
	is "$(owner /var/backups/lsfs)" "root 700"
	has -e /usr/share/doc/lsfs/semantics.md
	for page in lsfs.7 lsfs-recipes.7 lsfs.8 mount.lsfs.8 lscell.8 lsctl.1 lsfs.conf.5; do
		has -e "/usr/share/man/man${page##*.}/$page.gz"
	done
}

# Names of installed units, as instances.
case_units() {
	local name
	for name in lscell@dc1.service lsfs@dc1.service lsctl-backup@dc1.service \
		lsctl-backup@dc1.timer lsctl-mirror@dc1.service; do
		is "$(inside systemd-analyze verify "$name" 2>&1)" ""
	done
	inside systemd-analyze security --offline=true --threshold=25 --no-pager \
		lscell@.service > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
}

case_mount() {
	inside mount -t lsfs -o standalone /var/lib/lsfs/local /mnt/cell
	inside sh -c 'echo before > /mnt/cell/f'
	is "$(inside cat /mnt/cell/f)" before
}

case_example() {
	inside cc -Wall -Wextra -Werror -o /tmp/guarded_write \
		/usr/share/doc/lsfs-dev/examples/guarded_write.c
	inside /tmp/guarded_write /mnt/cell/lock /mnt/cell/guarded "written under the lock"
	is "$(inside cat /mnt/cell/guarded)" "written under the lock"
	inside /tmp/guarded_write /mnt/cell/lock /mnt/cell/guarded short
	is "$(inside cat /mnt/cell/guarded)" short
}

# A replica, as the user that the package has made.
case_replica() {
	inside lsctl cell create dc1 --dir /etc/lsfs/new --replica 127.0.0.1:7000 > /dev/null
	inside mv /etc/lsfs/new/1 /var/lib/lsfs/dc1
	inside cp /etc/lsfs/new/dc1.conf /etc/lsfs/dc1.conf
	inside cp /etc/lsfs/new/admin.key /etc/lsfs/key
	inside chown -R lscell: /var/lib/lsfs/dc1
	chroot "$root" /usr/sbin/lscell /var/lib/lsfs/dc1 2> "$work/replica" &
	wait_until "the cell answers" inside lsctl status --cell dc1
	is "$(stat -c %u "/proc/$(running lscell)")" "$(inside id -u lscell)"
}

# What runs is not touched: the operator restarts replicas, one after another.
case_upgrade() {
	local before
	before=$(running lscell),$(running lsfs)
	later_debs "$root/debs/later" 0.99
	install_debs '/debs/later/*.deb'
	is "$(inside dpkg-query -W -f '${Version} ${Status}' lscell)" "0.99 install ok installed"
	is "$(running lscell),$(running lsfs)" "$before"
	is "$(inside cat /mnt/cell/f)" before
	inside lsctl status --cell dc1 > /dev/null
}

case_remove() {
	kill "$(running lscell)"
	inside umount /mnt/cell
	inside dpkg -r lsfs lscell lsfs-dev > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	has ! -e /usr/sbin/lsfs
	has ! -L /sbin/mount.lsfs
	has -e /etc/lsfs/key
	has -e /var/lib/lsfs/dc1/log.db
}

case_purge_keeps_data_and_keys() {
	inside dpkg -P lsfs lscell lsfs-dev > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	has -e /etc/lsfs/key
	has -e /var/lib/lsfs/dc1/log.db
	has -e /var/lib/lsfs/local/log.db
	is "$(owner /var/lib/lsfs/dc1)" "lscell 700"
	is "$(inside sh -c 'dpkg-query -L lsfs lscell lsfs-dev 2> /dev/null')" ""
}

# What was left is in use again.
case_install_again() {
	install_debs '/debs/lsfs_*.deb'
	inside mount -t lsfs -o standalone /var/lib/lsfs/local /mnt/cell
	is "$(inside cat /mnt/cell/f)" before
	inside umount /mnt/cell
}

run_cases
