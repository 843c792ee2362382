#!/bin/bash
# The program that judges the calls of torture: it reads a file of them, and its exit status is the
# verdict. What is judged how is tested by tests/unit/test_calls.
set -u
export LC_ALL=C
HISTORY=${LSFS_BUILD:-$PWD}/tests/e2e/history
work=$(mktemp -d "${TMPDIR:-/tmp}/lsfs-e2e.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

number=0 failed=0
report() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		sed 's/^/# /' "$work/out"
		failed=1
	fi
}

# judge STATUS: of the history in the standard input
judge() {
	cat > "$work/history"
	"$HISTORY" "$work/history" > "$work/out" 2>&1
	[ $? -eq "$1" ]
}

echo 1..8

judge 0 << 'EOF' && grep -q '^verdict: consistent, 0 violations' "$work/out"
{"process":1,"type":"invoke","operation":"write","path":"r","value":"a","time":10}
{"process":1,"type":"ok","operation":"write","path":"r","time":20,"generation":0}
{"process":2,"type":"invoke","operation":"read","path":"r","time":30}
{"process":2,"type":"ok","operation":"read","path":"r","value":"a","time":40,"generation":5}
{"process":1,"type":"invoke","operation":"cas","path":"r","value":"b","time":50}
{"process":1,"type":"info","operation":"cas","path":"r","expected":"a","time":60}
EOF
report $? "a good history"

# said NUMBER TYPE OPERATION VALUE
said() {
	printf '{"process":1,"type":"%s","operation":"%s","path":"a",%s"time":%d}\n' \
		"$2" "$3" "${4:+\"value\":\"$4\",}" "$1"
}
{
	lines=''
	for i in $(seq 1 500); do
		said "${i}0" invoke append "1-$i"
		said "${i}1" ok append ''
		lines+="1-$i\\n"
	done
	said 9000 invoke final ''
	said 9001 ok final "$lines"
} | judge 0
report $? "a long file"

judge 1 << 'EOF' && grep -q '^violation: r: nobody wrote what was seen' "$work/out"
{"process":1,"type":"invoke","operation":"write","path":"r","value":"a","time":10}
{"process":1,"type":"ok","operation":"write","path":"r","time":20}
{"process":2,"type":"invoke","operation":"read","path":"r","time":30}
{"process":2,"type":"ok","operation":"read","path":"r","value":"x","time":40}
EOF
report $? "a violation"

# A mount goes on answering from its cache when a write on another one has been answered.
judge 1 << 'EOF' && grep -q "^violation: s: '65' was still seen when '66' had" "$work/out"
{"process":1,"type":"invoke","operation":"write","path":"s","value":"65","time":10}
{"process":1,"type":"ok","operation":"write","path":"s","value":"65","time":20}
{"process":2,"type":"invoke","operation":"stat","path":"s","time":30}
{"process":2,"type":"ok","operation":"stat","path":"s","value":"65","mtime":1000,"time":40}
{"process":1,"type":"invoke","operation":"write","path":"s","value":"66","time":50}
{"process":1,"type":"ok","operation":"write","path":"s","value":"66","time":60}
{"process":2,"type":"invoke","operation":"stat","path":"s","time":70}
{"process":2,"type":"ok","operation":"stat","path":"s","value":"65","mtime":1000,"time":80}
EOF
report $? "a stale cache"

# torn BEGIN: a stat of process 102, which began then, has got the size of an earlier version with
# the time of the one that process 101 got.
torn() {
	cat << EOF
{"process":1,"type":"invoke","operation":"write","path":"s","value":"65","time":10}
{"process":1,"type":"ok","operation":"write","path":"s","value":"65","time":20}
{"process":101,"type":"invoke","operation":"stat","path":"s","time":21}
{"process":101,"type":"ok","operation":"stat","path":"s","value":"65","mtime":1000,"time":22}
{"process":1,"type":"invoke","operation":"write","path":"s","value":"66","time":30}
{"process":1,"type":"ok","operation":"write","path":"s","value":"66","time":40}
{"process":101,"type":"invoke","operation":"stat","path":"s","time":50}
{"process":101,"type":"ok","operation":"stat","path":"s","value":"66","mtime":1001,"time":60}
{"process":201,"type":"invoke","operation":"stat","path":"s","time":61}
{"process":201,"type":"ok","operation":"stat","path":"s","value":"66","mtime":1001,"time":62}
{"process":102,"type":"invoke","operation":"stat","path":"s","time":$1}
{"process":102,"type":"ok","operation":"stat","path":"s","value":"65","mtime":1001,"time":70}
EOF
}
torn 51 | judge 0 && grep -q '^torn: .* in 1 of 4 stats' "$work/out"
report $? "a stat that the kernel has torn as another one was answered"

{
	torn 51
	torn 51 | sed -n 's/"process":102/"process":103/p; s/"process":201/"process":202/p'
} | judge 1 && grep -q "^violation: these are too many" "$work/out"
report $? "more such stats than the kernel tears"

torn 63 | judge 1 && grep -q "^violation: s: '65' was changed at 100. and 100." "$work/out"
report $? "a mixture that no answer to another stat explains"

judge 2 << 'EOF'
{"process":1,"type":"ok","operation":"write","path":"r","time":20}
EOF
report $? "no history"

exit $failed
