#!/bin/bash
# A cell file whose replicas are found by a DNS name of type SRV: the addresses in it are wrong, and
# DNS does not say whose those are that it gives.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

found=$work/found.conf # the cell file of those who ask DNS
offered=_lsfs._tcp.cell.example

# serve_dns RECORD...: DNS answers with these, "PRIORITY WEIGHT PORT HOST", for $offered, and
# 127.0.0.1 for each host; for every other name that there is none.
serve_dns() {
	rm -f "$work/dns"
	python3 - "$offered" "$@" > "$work/dns" <<-'P' &
		import socket, struct, sys
		service, records = sys.argv[1], [r.split() for r in sys.argv[2:]]
		def labels(name):
		    parts = [p for p in name.split(".") if p]
		    return b"".join(bytes([len(p)]) + p.encode() for p in parts) + b"\0"
		def answers(name, kind):
		    if name == service and kind == 33:
		        for *numbers, host in records:
		            yield 33, struct.pack(">HHH", *map(int, numbers)) + labels(host)
		    elif kind == 1 and any(name == r[3].rstrip(".") for r in records):
		        yield 1, bytes([127, 0, 0, 1])
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.bind(("127.0.0.1", 53))
		print("up", flush=True)
		while True:
		    q, peer = s.recvfrom(4096)
		    at, parts = 12, []
		    while q[at]:
		        parts.append(q[at + 1:at + 1 + q[at]].decode())
		        at += 1 + q[at]
		    name, kind = ".".join(parts), struct.unpack(">H", q[at + 1:at + 3])[0]
		    known = name == service or any(name == r[3].rstrip(".") for r in records)
		    all = list(answers(name, kind))
		    flags = 0x8180 if known else 0x8183
		    answer = q[:2] + struct.pack(">HHHHH", flags, 1, len(all), 0, 0) + q[12:at + 5]
		    for kind, data in all:
		        answer += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data
		    s.sendto(answer, peer)
	P
	echo $! > "$work/dns.pid"
	wait_until "DNS answers" test -s "$work/dns"
}
end_dns() {
	kill "$(cat "$work/dns.pid")"
	wait_until "DNS has ended" gone "$(cat "$work/dns.pid")"
}

# port N: of replica N.
port() { sed -n "/^\[replica $1\]/,/^address/s/^address = .*://p" "$cell/dc1.conf"; }

found_ctl() { limit 30 "$LSCTL" --cell "$found" --key "$cell/admin.key" "$@"; }
mount_found() { limit 30 "$LSFS" -o "key=$cell/admin.key" "$found" "$m2"; }

case_up() {
	up_of_three
	echo "nameserver 127.0.0.1" > "$work/resolv.conf"
	mount --bind "$work/resolv.conf" /etc/resolv.conf
	sed "s/^address = .*/address = 127.0.0.1:1/; s/^name = .*/&\nsrv = $offered/" \
		"$cell/dc1.conf" |
		awk '/^address/ { sub(/1$/, ++n) } { print }' > "$found"
}

# In another order than that of the replicas.
case_found() {
	serve_dns "1 1 $(port 3) a.cell.example." "2 1 $(port 1) b.cell.example." \
		"3 1 $(port 2) c.cell.example."
	mount_found
	echo 1 > "$m2/f"
	is "$(cat "$m/f")" 1
	found_ctl status > /dev/null
	found_ctl session list > /dev/null
}

# A list that is brought up to date has the addresses; the name stays.
case_brought_up_to_date() {
	cp "$found" "$work/old.conf"
	limit 30 "$LSCTL" --cell "$work/old.conf" --key "$cell/admin.key" cell refresh > /dev/null
	grep -qx "srv = $offered" "$work/old.conf"
}

# The members come from the cell: nothing is asked for any more.
case_dns_ends() {
	end_dns
	local old
	old=$(master)
	kill_replica "$old"
	limit 60 bash -c "echo 2 > '$m2/f'"
	start_replica "$old"
	limit 10 umount "$m2"
}

# One of three addresses suffices, next to ones that nobody listens on.
case_one_of_them() {
	serve_dns "1 1 1 a.cell.example." "1 1 2 b.cell.example." \
		"9 1 $(port 2) c.cell.example."
	mount_found
	is "$(cat "$m2/f")" 2
	found_ctl status > /dev/null
	limit 10 umount "$m2"
	end_dns
}

# says_no TEXT: so do the mount and the tool, in one line.
says_no() {
	one_line 1 "$1" "$LSFS" -o "key=$cell/admin.key" "$found" "$m2"
	one_line 1 "$1" "$LSCTL" --cell "$found" --key "$cell/admin.key" session list
}

case_no_such_name() {
	serve_dns "1 1 1 a.cell.example."
	sed -i "s/^srv = .*/srv = unknown.example/" "$found"
	says_no "srv = unknown.example: there is no such name in DNS"
	sed -i "s/^srv = .*/srv = a.cell.example/" "$found"
	says_no "srv = a.cell.example: the name has no SRV record"
	sed -i "s/^srv = .*/srv = a b/" "$found"
	says_no "srv: not a DNS name: a b"
	end_dns
}

case_down() { down; }

run_cases
