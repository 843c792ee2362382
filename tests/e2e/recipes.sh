#!/bin/bash
# Every example of lsfs-recipes(7), as it is printed but for its paths, on two hosts with a mount
# each, and with a fault: the holder is killed, or its mount cut off. The programs that the examples
# start are stubs: each notes its host in $work/began/NAME, works as long as there is a file
# $work/hold/NAME, and notes its host in $work/ended/NAME.
SETTINGS="session_lease=3s cache_lease=1s"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

page=$(dirname "$script")/../../docs/lsfs-recipes.7
mkdir "$work/began" "$work/ended" "$work/hold" "$work/bin" "$work/h1" "$work/h2" "$work/h3"

stub() {
	cat > "$work/bin/$1"
	chmod +x "$work/bin/$1"
}
worker() {
	stub "$1" <<-E
		#!/bin/sh
		echo "\$HOST" >> $work/began/$1
		while [ -e $work/hold/$1 ]; do sleep 0.05; done
		echo "\$HOST" >> $work/ended/$1
	E
}
for name in make-report clean-up heavy-job serve reload-proxy store-write do-work maintain \
	make-backup systemctl; do worker $name; done
stub hostname <<< "#!/bin/sh
echo \$HOST"
stub pg_ctl <<< "#!/bin/sh
echo \$HOST >> $work/began/pg_ctl"
stub pg_isready <<< "#!/bin/sh
test -e $work/hold/postgresql-\$HOST"
stub point-pooler-at <<< "#!/bin/sh
echo \$1 >> $work/began/pooler"
stub terraform <<< "#!/bin/sh
state=\${4#-state=}
was=\$(cat \$state 2> /dev/null || echo 0)
echo \$HOST >> $work/began/terraform
while [ -e $work/hold/terraform ]; do sleep 0.05; done
echo \$((was + 1)) > \$state.new && mv \$state.new \$state"

# example NAME LANGUAGE: its text.
example() {
	awk -v head=".\\\\\" $1 $2" '
		$0 == head { found = 1; next }
		found && /^\.EX/ { on = 1; next }
		on && /^\.EE/ { exit }
		on { gsub(/\\-/, "-"); gsub(/\\e/, "\\"); print }' "$page"
}

# begin HOST NAME [LANGUAGE]: in the background, in a process group of its own; h3 is a second user
# of the first host. Its exit status: ended HOST NAME.
begin() {
	local number=${1#h} text language=${3:-sh}
	[ "$number" != 3 ] || number=1
	text=$(example "$2" "$language" | sed "s|/ls/dc1|$work/m$number|g; s|/etc/|$work/$1/|g;
		s|/srv/|$work/|g")
	[ -n "$text" ] || { say "no example $2 in $language"; return 1; }
	[ "$language" != python ] || language=python3
	rm -f "$work/$1/$2.status"
	(
		HOST=$1 PATH=$work/bin:$build/ctl:$PATH setsid $language -c "$text" \
			2>> "$work/$1/$2.errors" > "$work/$1/$2.out" &
		echo $! > "$work/$1/$2.pid"
		wait $! && rc=0 || rc=$?
		echo $rc > "$work/$1/$2.status"
	) &
	wait_until "$2 is started" test -s "$work/$1/$2.pid"
}
has_ended() { test -s "$work/$1/$2.status"; }
ended() {
	wait_until "$2 has ended on $1" has_ended "$1" "$2"
	is "$(cat "$work/$1/$2.status")" "${3:-0}" || { cat "$work/$1/$2.errors"; return 1; }
}
run() { begin "$@" && ended "$1" "$2"; }
# kill_example HOST NAME: all its processes.
kill_example() { kill -9 -- "-$(cat "$work/$1/$2.pid")"; }
kill_last() {
	local pid
	for pid in "$work"/h?/*.pid; do kill -9 -- "-$(cat "$pid")" 2> /dev/null || :; done
	rm -f "$work"/hold/*
}

hold() { touch "$work/hold/$1"; }
let_go() { rm -f "$work/hold/$1"; }
began() { xargs < "$work/began/$1"; }
has_begun() { [ "$(began "$1" 2> /dev/null)" = "$2" ]; }
expect_begun() { wait_until "$1 has begun on $2" has_begun "$1" "$2" || { began "$1"; return 1; }; }
discovers() { run "$1" discover && [ "$(xargs < "$work/$1/discover.out")" = "$2" ]; }
back() { wait_until "mount $1 is safe again" eval '[ "$(told '"$1"' state)" = safe ]'; }
is_free() { [ "$(attribute lock "$work/m2/$1")" = free ]; }
reads() { [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; }
waits() { pause_s 0.5 && ! has_ended "$1" "$2"; }

case_up() { up lock_delay=1; }

case_job() {
	hold make-report
	begin h1 job
	expect_begun make-report h1
	run h2 job
	is "$(began make-report)" h1
	kill_example h1 job
	wait_until "the lock is free" is_free jobs/report # it is tried for once
	begin h2 job
	expect_begun make-report "h1 h2"
	let_go make-report
	ended h2 job
	kill_last
}

case_daily() {
	hold clean-up
	begin h1 daily
	expect_begun clean-up h1
	kill_example h1 daily
	begin h2 daily
	expect_begun clean-up "h1 h2"
	let_go clean-up
	ended h2 daily
	run h1 daily
	is "$(began clean-up)" "h1 h2"
	example daily unit | grep -qxF \
		"ExecStart=/usr/bin/$(example daily sh | tail -n 1)"
}

case_slots() {
	hold heavy-job
	begin h1 slots
	expect_begun heavy-job h1
	begin h2 slots
	expect_begun heavy-job "h1 h2"
	begin h3 slots
	waits h3 slots
	is "$(began heavy-job)" "h1 h2"
	kill_example h1 slots
	expect_begun heavy-job "h1 h2 h3"
	let_go heavy-job
	ended h2 slots
	ended h3 slots
}

case_primary() {
	hold serve
	begin h1 primary
	expect_begun serve h1
	run h2 primary-of
	is "$(cat "$work/h2/primary-of.out")" h1:8080
	begin h2 primary
	isolate c1
	expect_begun serve "h1 h2"
	run h2 primary-of
	is "$(cat "$work/h2/primary-of.out")" h2:8080
	heal
	ended h1 primary 75
	back 1
	kill_last
	example primary unit |
		grep -q '^ExecStart=/usr/bin/lsctl elect /ls/dc1/service/primary %H:8080'
	rm "$work/began/serve"
}

case_register_and_discover() {
	hold serve
	begin h1 register
	expect_begun serve h1
	begin h2 register python
	expect_begun serve "h1 h2"
	wait_until "both are found" discovers h1 "h1:8080 h2:8080"
	discovers h2 "h1:8080 h2:8080"
	kill_example h1 register
	wait_until "h1 is not found any more" discovers h2 h2:8080
	isolate c2
	wait_until "h2 is not found any more" discovers h1 ""
	heal
	kill_last
	back 2
}

case_push() {
	local conf1=$work/h1/proxy.conf conf2=$work/h2/proxy.conf
	begin h1 push
	begin h2 push
	wait_until "h2 has a file" reads "$conf2" ""
	echo one > "$work/m1/conf/proxy"
	wait_until "h1 has it" reads "$conf1" one
	wait_until "h2 has it" reads "$conf2" one
	isolate c1
	echo two > "$work/m2/conf/proxy"
	wait_until "h2 has the next one" reads "$conf2" two
	heal
	wait_until "h1 has it, too" reads "$conf1" two
	kill_last
	back 1
}

case_fencing() {
	hold store-write
	begin h1 fencing
	expect_begun store-write h1
	isolate c1
	begin h2 fencing
	expect_begun store-write "h1 h2"
	heal
	let_go store-write
	ended h2 fencing
	ended h1 fencing 75
	# What the first holder has on its way still.
	refused "" "$LSCTL" fence "$work/store.fence" 1 -- touch "$work/late"
	[ ! -e "$work/late" ]
	back 1
}

case_reboot() {
	run h1 reboot
	is "$(began systemctl)" h1
	begin h2 reboot
	waits h2 reboot
	isolate c1
	run h2 rebooted
	waits h2 reboot
	heal
	back 1
	run h1 rebooted
	ended h2 reboot
	is "$(began systemctl)" "h1 h2"
	run h2 rebooted
	[ ! -e "$work/m1/reboot/turn" ]
}

case_maintenance() {
	hold do-work
	begin h1 work
	expect_begun do-work h1
	begin h2 work
	expect_begun do-work "h1 h2"
	hold maintain
	begin h3 maintenance
	waits h3 maintenance
	kill_example h1 work
	waits h3 maintenance
	let_go do-work
	expect_begun maintain h3
	run h1 work
	is "$(began do-work)" "h1 h2"
	let_go maintain
	ended h3 maintenance
}

case_backups() {
	hold make-backup
	begin h1 backups
	expect_begun make-backup h1
	begin h2 backups python
	waits h2 backups
	kill_example h1 backups
	expect_begun make-backup "h1 h2"
	let_go make-backup
	ended h2 backups
}

case_terraform() {
	hold terraform
	begin h1 terraform
	expect_begun terraform h1
	begin h2 terraform
	waits h2 terraform
	kill_example h1 terraform
	expect_begun terraform "h1 h2"
	let_go terraform
	ended h2 terraform
	is "$(cat "$work/m1/terraform/state")" 1
}

case_postgresql() {
	touch "$work/hold/postgresql-h1" "$work/hold/postgresql-h2"
	begin h1 postgresql
	expect_begun pg_ctl h1
	begin h1 pooler
	wait_until "the pooler is at h1" eval '[ "$(began pooler | sed "s/.* //")" = h1 ]'
	begin h2 postgresql
	rm "$work/hold/postgresql-h1"
	expect_begun pg_ctl "h1 h2"
	wait_until "the pooler is at h2" eval '[ "$(began pooler | sed "s/.* //")" = h2 ]'
	touch "$work/hold/postgresql-h1"
	begin h1 postgresql
	isolate c2
	patience=40 expect_begun pg_ctl "h1 h2 h1"
	wait_until "the pooler is at h1 again" eval '[ "$(began pooler | sed "s/.* //")" = h1 ]'
	heal
	kill_last
}

# None is left out.
case_all_examples() {
	local name language
	sed -n 's/^\.\\" //p' "$page" | while read -r name language; do
		grep -qE "(begin|run) h[123] $name( $language)?\$|example $name $language" \
			"$script" ||
			[ "$name" = discover ] || { say "$name is not run"; exit 1; }
	done
	is "$(grep -c '^\.SS' "$page")" 12
}

run_cases
