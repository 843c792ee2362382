#!/bin/bash
# lscell --http: /healthz, /metrics and the page tell how the replica and its cell are, to anyone,
# however they read it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

examples=$(dirname "$script")/../../docs/examples
port() { echo $((8000 + $1)); }
start_http() { "$LSCELL" --http "$(port "$1")" "$cell/$1" 2>> "$work/lscell-$1.log" & }

# get N PATH: what replica N answers; its status in $work/code.
get() {
	limit 10 python3 - "http://127.0.0.1:$(port "$1")$2" "$work/code" <<- 'EOP'
		import sys, urllib.error, urllib.request
		try:
		    answer = urllib.request.urlopen(sys.argv[1], timeout=8)
		except urllib.error.HTTPError as error:
		    answer = error
		open(sys.argv[2], "w").write(str(answer.status))
		sys.stdout.write(answer.read().decode())
	EOP
}
# code N PATH
code() { get "$1" "$2" > "$work/answer" 2> "$work/errors" && cat "$work/code"; }
is_code() { [ "$(code "$1" "$2")" = "$3" ]; }
# metric N NAME: its value, or its values.
metric() { get "$1" /metrics | sed -n "s/^$2 //p"; }
# sentence N: of the page, and its colour.
sentence() {
	get "$1" / | sed -n 's,.*<h1 class="\([a-z]*\)"><bdi>\(.*\)</bdi>.*,\1: \2,p'
}
# tells N PATTERN
tells() { [[ "$(sentence "$1")" == $2 ]]; }

case_set_up() {
	create_of_three
	for i in 1 2 3; do start_http $i; done
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m"
}

case_a_healthy_cell() {
	local i
	for i in 1 2 3; do
		wait_until "replica $i works" is_code $i /healthz 200
		is "$(get $i /healthz)" "dc1: this replica works"
		is "$(metric $i lscell_healthy)" 1
	done
	is "$(metric "$(master)" 'lscell_role{role="master"}')" 1
	is "$(metric 1 lscell_sessions)" 1
	wait_until "all is well" tells 2 "good: dc1 works"
	get 3 / > "$work/page"
	grep -q "<td><bdi>$(hostname)</bdi>" "$work/page"
	is "$(grep -c UDP "$work/page")" 0
	is "$(grep -o 'class="n good">up' "$work/page" | wc -l)" 6
	echo x > "$d/file"
	[ "$(metric "$(master)" lscell_commit_seconds_count)" -gt 0 ]
	wait_until "its commits are seen" eval 'get "$(master)" / | grep -q "99 of 100 at most"'
	is "$(code 1 /nothing)" 404
	is "$(limit 5 python3 -c '
import sys, urllib.request
try: urllib.request.urlopen(sys.argv[1], b"a=b", timeout=4)
except urllib.error.HTTPError as error: print(error.status)' \
		"http://127.0.0.1:$(port 1)/")" 405
}

# The text format, each metric explained, each value once.
case_metrics() {
	local i
	for i in 1 2 3; do
		get $i /metrics > "$work/metrics"
		python3 - "$work/metrics" <<- 'EOP'
			import re, sys
			types, helps, seen = {}, {}, set()
			for line in open(sys.argv[1]).read().splitlines():
			    if line.startswith("# HELP "):
			        helps[line.split()[2]] = True
			    elif line.startswith("# TYPE "):
			        types[line.split()[2]] = line.split()[3]
			    else:
			        labels = r'(\{(?:[a-z]+="[^"]*",?)*\})?'
			        m = re.fullmatch('([a-z_]+)' + labels + ' [0-9.]+', line)
			        assert m, line
			        name = re.sub("_(bucket|sum|count)$", "", m[1])
			        if types.get(name) != "histogram":
			            name = m[1]
			        assert name in types and name in helps, line
			        assert (types[name] == "counter") == name.endswith("_total"), line
			        assert (m[1], m[2]) not in seen, line
			        seen.add((m[1], m[2]))
			assert len(seen) > 40, seen
		EOP
		not command -v promtool > /dev/null || promtool check metrics < "$work/metrics"
	done
}

# The alerts and the dashboard are about metrics that there are.
case_examples() {
	local name seen
	seen=$(for i in 1 2 3; do get $i /metrics; done | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p')
	for name in $(grep -ohE "lscell_[a-z_]+" "$examples"/lscell* | sed "s,_bucket$,," |
		sort -u); do
		grep -qx "$name" <<< "$seen" || { say "$name"; return 1; }
	done
	python3 -m json.tool "$examples/lscell-dashboard.json" > "$work/json"
	not command -v promtool > /dev/null || promtool check rules "$examples/lscell.rules.yml"
}

# What the page says is what lsctl says.
case_one_replica_fails() {
	local victim=1
	[ "$(master)" != 1 ] || victim=2
	kill_replica $victim
	wait_until "it shows" tells 3 "degraded: dc1 works; one more failure would stop it*"
	is "$(get 3 / | grep -o 'class="n down">down\|>not known' | wc -l)" 4
	is "$(sentence 3)" "degraded: dc1 works; $(exits 1 cell_ctl status --check |
		sed -n 's/^degraded: dc1: //p')"
	is "$(get 3 /healthz)" "dc1: this replica works"
	start_http $victim
	wait_until "all is well" tells 3 "good: dc1 works"
}

case_no_majority() {
	kill_replica 1
	kill_replica 2
	wait_until "it shows" is_code 3 /healthz 503
	is "$(get 3 /healthz)" "dc1: this replica has no master"
	is "$(metric 3 lscell_healthy)" 0
	wait_until "the page tells" tells 3 \
		"down: dc1 has no master: 1 of 3 replicas can be reached, 2 are needed"
	start_http 1
	start_http 2
	wait_until "it works" is_code 3 /healthz 200
	wait_until "all is well" tells 1 "good: dc1 works"
}

# Names of hosts, files and principals are anybody's.
case_hostile_names() {
	local name='<img src=x onerror=alert(1)>"&' pid
	unshare --uts -- python3 -c '
import socket, subprocess, sys
socket.sethostname("<script>alert(1)</script>")
sys.exit(subprocess.call(sys.argv[1:]))' \
		"$LSFS" -o "key=$cell/admin.key" "$conf" "$m2"
	touch "$m/$name"
	flock -o "$m/$name" sleep 60 &
	pid=$!
	wait_until "it is locked" grep -q exclusive "$m/.cell/locks"
	flock "$m2/$name" true &
	wait_until "it is awaited" grep -q waiter "$m/.cell/locks"
	wait_until "it shows" eval 'get 1 / | grep -q "img src"'
	get 1 / > "$work/page"
	python3 - "$work/page" "$name" <<- 'EOP'
		import html.parser, sys
		tags, text = set(), []
		class Reader(html.parser.HTMLParser):
		    def handle_starttag(self, tag, attributes):
		        tags.add(tag)
		        assert not any(name.startswith("on") for name, _ in attributes), attributes
		    def handle_data(self, data):
		        text.append(data)
		Reader().feed(open(sys.argv[1]).read())
		assert not tags & {"script", "img"}, tags
		assert any(sys.argv[2] in t for t in text), text
		assert "<script>alert(1)</script>" in text, text
	EOP
	kill $pid
	wait
	umount "$m2"
}

# A name that not all principals may read is not told to those who need no key.
case_secret_names() {
	local pid
	setfattr -n user.ls.acl.read -v admin "$d"
	touch "$d/secret" "$m/open"
	flock -o "$d/secret" flock -o "$m/open" sleep 60 &
	pid=$!
	wait_until "they are locked" eval '[ "$(grep -c "^lock: exclusive" "$m/.cell/locks")" = 2 ]'
	flock "$d/secret" true &
	flock "$m/open" true &
	wait_until "it shows" eval 'get 1 / | grep -q "<bdi>/open"'
	get 1 / > "$work/page"
	not grep -q secret "$work/page"
	pkill -P $pid
	wait
}

# Two hundred that send nothing, or half a request, or read nothing, hold nobody up and no memory.
case_slow_readers() {
	local victim before
	victim=$(replica 1)
	code 1 / > /dev/null
	before=$(kilobytes "$victim")
	limit 60 python3 - "$(port 1)" <<- 'EOP' || return 1
		import socket, sys, time, urllib.request
		port = int(sys.argv[1])
		url = f"http://127.0.0.1:{port}"
		request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		slow = []
		for i in range(200):
		    s = socket.create_connection(("127.0.0.1", port), 5)
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
		    s.send([b"", request[:20], request][i % 3])
		    slow.append(s)
		    if i % 20 == 19:
		        began = time.monotonic()
		        for path in ("healthz", "metrics", ""):
		            urllib.request.urlopen(f"{url}/{path}", timeout=5).read()
		        took = time.monotonic() - began
		        assert took < 3, took
		deadline = time.monotonic() + 14
		for s in slow:
		    s.settimeout(max(0.1, deadline - time.monotonic()))
		    try:
		        while s.recv(65536):
		            pass
		    except ConnectionError:
		        pass
	EOP
	is_sanitized || [ $(($(kilobytes "$victim") - before)) -lt 8192 ]
	echo x > "$d/file"
	keepalives_are_in_time
	steps_are_short
}

# While the page waits for a replica that says nothing, a hundred that want it keep no monitor out.
case_many_wait() {
	local other=2 pid
	[ "$(master)" != 2 ] || other=3
	pid=$(replica $other)
	kill -STOP "$pid"
	limit 30 python3 - "$(port 1)" <<- 'EOP' || { kill -CONT "$pid"; return 1; }
		import socket, sys, time, urllib.request
		port = int(sys.argv[1])
		def ask():
		    s = socket.create_connection(("127.0.0.1", port), 5)
		    s.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		    return s
		def is_answered(s):
		    s.settimeout(0.2)
		    try:
		        s.recv(1)
		        return True
		    except TimeoutError:
		        return False
		while is_answered(s := ask()):
		    pass # with the page that was made last
		waiting = [s] + [ask() for _ in range(99)]
		for path in ("healthz", "metrics"):
		    began = time.monotonic()
		    urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=9).read()
		    took = time.monotonic() - began
		    assert took < 5, (path, took)
		codes = []
		for s in waiting:
		    s.settimeout(15)
		    try:
		        codes.append(s.recv(65536)[9:12])
		    except ConnectionError:
		        pass # it was one of too many
		assert 1 <= codes.count(b"200") <= 16 and b"503" in codes, codes
	EOP
	kill -CONT "$pid"
}

# Whoever reads does not keep a replica from ending, and it says goodbye to those that wait.
case_the_end() {
	local pid
	pid=$(replica 2)
	limit 20 python3 - "$(port 2)" "$pid" <<- 'EOP'
		import os, signal, socket, sys
		all = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(20)]
		for s in all[:10]:
		    s.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		os.kill(int(sys.argv[2]), signal.SIGTERM)
		for s in all:
		    try:
		        while s.recv(65536):
		            pass
		    except ConnectionError:
		        pass
	EOP
	wait_until "it has ended" gone "$pid"
	said 2 "stops on signal 15"
	start_http 2
	wait_until "it works" is_code 2 /healthz 200
}

# The page is no connection of the administrator's: it works on when these are ended.
case_another_administrator() {
	local i
	"$LSCTL" key generate "$work/new.key" admin > /dev/null
	limit 30 "$LSCTL" principal recover admin "$("$LSCTL" key show "$work/new.key")" \
		--dir "$cell/2"
	mv "$work/new.key" "$cell/admin.key"
	cell_ctl principal list > /dev/null
	for i in 1 2 3; do wait_until "replica $i works" is_code $i /healthz 200; done
	limit 10 umount "$m"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m"
}

case_wrong_addresses() {
	one_line 2 "x: not an address HOST:PORT" "$LSCELL" --http x "$cell/1"
	one_line 2 "70000: not an address" "$LSCELL" --http 70000 "$cell/1"
	one_line 1 "can't listen there" "$LSCELL" --http "$(port 1)" "$cell/1"
	one_line 1 "can't listen there" "$LSCELL" --http 192.0.2.1:80 "$cell/1"
}

# Nobody but this machine is asked to.
case_loopback() {
	ss -Hltn "sport = :$(port 1)" | grep -q "127.0.0.1:$(port 1)"
	is "$(ss -Hltn "sport = :$(port 1)" | wc -l)" 1
}

run_cases
