#!/bin/bash
# KeepAlives over UDP, on machines of their own: while TCP carries nothing a session lives on; where
# UDP is shut, nothing is different from what it was.
MOUNTS=2
SETTINGS="cache_lease=2s session_lease=3s"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

m1=$work/m1

# drop PROTOCOL...: at mount 1's machine nothing of these arrives or leaves any more.
drop() {
	on c1 nft -f - <<-E
		table ip dropped {
			chain input {
				type filter hook input priority 0;
				meta l4proto { $* } drop
			}
			chain output {
				type filter hook output priority 0;
				meta l4proto { $* } drop
			}
		}
	E
}
drop_no_more() { on c1 nft delete table ip dropped; }

in_state() { [ "$(told "$1" state)" = "$2" ]; }
metric() { sed -n "s/^lsfs_$1_total //p" "$m1/.cell/metrics"; }
jeopardies() { metric jeopardies; }
is_open() { operate session list | grep -qw "$1"; }
is_not_open() { ! is_open "$1"; }

case_up() {
	up
	echo 1 > "$m1/f"
	is "$(jeopardies)" 0
}

# Mount 2 is cut off at the same moment: when the cell has ended its session, that of mount 1 was
# longer without TCP than a lease is.
case_without_tcp() {
	local session other
	session=$(told 1 session) other=$(told 2 session)
	exec 8<> "$m1/lock"
	flock 8
	drop tcp
	isolate c2
	wait_until "the session of mount 2 has ended" is_not_open "$other"
	in_state 1 safe
	heal
	drop_no_more
	limit 20 bash -c "echo 2 > '$m1/f'"
	is "$(told 1 session)" "$session"
	is "$(jeopardies)" 0
	[ "$(metric datagrams_answered)" -gt 0 ]
	is "$(attribute lock "$m1/lock")" exclusive
	exec 8>&-
	wait_until "mount 2 is back" in_state 2 safe
}

# A datagram does not renew leave to cache: a change elsewhere waits for the cache lease and no
# longer.
case_the_cache_is_not_kept() {
	is "$(cat "$m1/f")" 2
	drop tcp
	limit 15 bash -c "echo 3 > '$work/m2/f'"
	drop_no_more
	is "$(limit 20 cat "$m1/f")" 3
}

case_without_udp() {
	local before
	before=$(jeopardies)
	drop udp
	exits 0 limit 5 bash -c "echo 4 > '$m1/f'"
	is "$(limit 5 cat "$work/m2/f")" 4
	drop_no_more
	is "$(jeopardies)" "$before"
}

case_without_both() {
	local before
	before=$(jeopardies)
	drop tcp, udp
	wait_until "it is in jeopardy" in_state 1 jeopardy
	drop_no_more
	wait_until "it is safe" in_state 1 safe
	[ "$(jeopardies)" -gt "$before" ]
}

# Datagrams of strangers are not answered, and harm nobody.
case_noise() {
	on c1 timeout 10 python3 - <<-'P'
		import os, socket
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		for n in range(3000):
		    s.sendto(os.urandom(80 if n % 2 else n % 1400), (f"10.77.0.{n % 3 + 1}", 7077))
		s.settimeout(0.5)
		try:
		    assert not s.recv(100)
		except TimeoutError:
		    pass
	P
	exits 0 limit 5 bash -c "echo 5 > '$m1/f'"
	in_state 1 safe
}

case_the_states_are_equal() { same_everywhere; }

run_cases
