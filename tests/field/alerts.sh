#!/bin/bash
# Each alert of docs/examples/lscell.rules.yml fires at a real fault, and none does in a healthy
# cell: what replicas tell in each state is the input of promtool's tests of rules, where that state
# then lasts as long as the rule waits.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/loopback.sh"
command -v promtool > /dev/null || skip_all "needs promtool (package prometheus)"

rules=$(dirname "$script")/../../docs/examples/lscell.rules.yml
port() { echo $((8000 + $1)); }
start_http() { "$LSCELL" --http "$(port "$1")" "$cell/$1" 2>> "$work/lscell-$1.log" & }
numbers() { limit 5 curl -s --max-time 4 "http://127.0.0.1:$(port "$1")/metrics"; }
# scrape NAME: what each replica tells; a file of nothing for one that does not answer.
scrape() {
	local i
	for i in 1 2 3; do numbers $i > "$work/$1.$i" || : > "$work/$1.$i"; done
}

# firing NAME...: the alerts that fire when the scrapes were made minute by minute and the last
# state lasts for half an hour.
firing() {
	python3 - "$work" "$rules" "$work/rules-test.yml" "$@" <<- 'EOP'
		import json, re, sys
		work, rules, test, *names = sys.argv[1:]
		series = {}
		for minute, scrape in enumerate(names):
		    for replica in "123":
		        lines = open(f"{work}/{scrape}.{replica}").read().splitlines()
		        values = [line.rsplit(" ", 1) for line in lines if line and line[0] != "#"]
		        values.append(("up", "1" if values else "0"))
		        for metric, value in values:
		            metric, _, labels = metric.rstrip("}").partition("{")
		            if 'cell="' not in labels:
		                labels = 'cell="dc1",' + labels
		            labels = f'job="lscell",instance="{replica}",' + labels
		            name = metric + "{" + labels.rstrip(",") + "}"
		            series.setdefault(name, {})[minute] = value
		def course(seen):
		    values = [seen.get(i, "_") for i in range(len(names))]
		    last = values[-1]
		    return " ".join(values) + (" _x30" if last == "_" else f" {last}+0x30")
		alerts = re.findall(r"alert: (\w+)", open(rules).read())
		json.dump({
		    "rule_files": [rules],
		    "evaluation_interval": "1m",
		    "tests": [{
		        "interval": "1m",
		        "input_series": [{"series": s, "values": course(v)}
		                         for s, v in series.items()],
		        "promql_expr_test": [{
		            "expr": "count(max_over_time(ALERTS{alertstate='firing',"
		                    f"alertname='{a}'}}[1h])) > bool 0",
		            "eval_time": f"{len(names) + 20}m",
		            "exp_samples": [{"labels": "{}", "value": 1}],
		        } for a in alerts],
		    }],
		}, open(test, "w"))
	EOP
	# What is not as expected does not fire.
	promtool test rules "$work/rules-test.yml" > "$work/verdict" 2>&1 || :
	sed -n 's/.*alert: \(Lscell[A-Za-z]*\)$/\1/p' "$rules" | while read -r alert; do
		grep -qw "$alert" "$work/verdict" || echo "$alert"
	done | xargs
}

# fires ALERT NAME...
fires() {
	local alert=$1 seen
	shift
	seen=$(firing "$@")
	[[ " $seen " == *" $alert "* ]] || { say "not $alert, but: $seen"; return 1; }
}

# votes N: and knows a master.
votes() {
	numbers "$1" > "$work/numbers"
	grep -qx 'lscell_condition{condition="voting"} 1' "$work/numbers" &&
		grep -qx 'lscell_healthy 1' "$work/numbers"
}
all_vote() { votes 1 && votes 2 && votes 3; }

case_a_healthy_cell() {
	local size
	create_of_three
	mkdir "$work/small"
	mount -t tmpfs -o size=24m small "$work/small"
	cp -a "$cell/3/." "$work/small"
	mount --bind "$work/small" "$cell/3"
	for i in 1 2 3; do start_http $i; done
	wait_until "all vote" all_vote
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m"
	scrape well
	is "$(firing well)" ""
	# A promtool that cannot read its test would find nothing wrong.
	not grep -qi 'error\|parse\|invalid' "$work/verdict"
}

case_a_dead_replica() {
	local victim=2
	[ "$(master)" != 2 ] || victim=1
	kill_replica $victim
	wait_until "its silence is seen" eval 'scrape dead
		grep -h "^lscell_link_up.* 0$" "$work"/dead.?'
	fires LscellNoReserve well dead
	fires LscellReplicaSilent well dead
	fires LscellLinkDown well dead
	# For longer than a minute: the number of seconds grows by itself.
	sed -i "s/^\(lscell_member_silence_seconds{.*replica=\"$victim\".*}\) .*/\1 61/" \
		"$work"/dead.?
	fires LscellReplicaBehind well dead
	not fires LscellDown well dead > "$work/out"
	start_http $victim
	wait_until "all vote" all_vote
}

case_an_unsteady_master() {
	local i epoch
	for i in 1 2 3 4 5; do
		epoch=$(numbers 3 | sed -n 's/^lscell_epoch //p')
		cell_ctl master transfer > "$work/out"
		wait_until "it has changed" eval 'scrape unsteady'$i'
			not grep -qx "lscell_epoch '"$epoch"'" "$work"/unsteady'$i'.3'
	done
	fires LscellMasterUnsteady unsteady1 unsteady2 unsteady3 unsteady4 unsteady5
}

case_a_limit_is_near() {
	cell_ctl cell set quota_bytes=262144 > /dev/null
	head -c 250000 /dev/zero > "$d/large"
	wait_until "it is near" eval 'scrape near
		[ "$(firing well near)" = LscellLimitNear ]'
	cell_ctl cell set quota_bytes=1073741824 > /dev/null
}

case_a_full_disk() {
	local i
	dd if=/dev/zero of="$cell/3/filler" bs=64k 2> "$work/out" || :
	for i in $(seq 200); do head -c 60000 /dev/urandom > "$d/f"; done
	wait_until "it is full" eval 'scrape full; fires LscellDiskFull well full > "$work/out"'
	rm "$cell/3/filler"
	wait_until "there is room" eval 'numbers 3 | grep -qx "lscell_disk_full 0"'
}

# Its log is lost: it has promised what it does not know any more.
case_a_lost_log() {
	kill_replica 2
	rm "$cell"/2/log.db* "$cell"/2/state.db*
	start_http 2
	wait_until "it has no vote" eval 'scrape lost
		grep -qx "lscell_condition{condition=\"voting\"} 0" "$work/lost.2"'
	fires LscellReplicaWithoutVote well lost
}

# States can't be made to differ from outside: the number is written into what was told.
case_states_differ() {
	local i
	for i in 1 2 3; do
		sed 's/^lscell_disputed_entry .*/lscell_disputed_entry 7/' "$work/well.$i" \
			> "$work/differ.$i"
	done
	fires LscellStatesDiffer well differ
}

case_no_majority() {
	kill_replica 1
	kill_replica 2
	wait_until "it stands still" eval 'scrape down
		grep -qx "lscell_healthy 0" "$work/down.3"'
	fires LscellDown well down
}

run_cases
