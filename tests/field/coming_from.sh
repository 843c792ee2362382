#!/bin/bash
# docs/coming-from.md: what it says of rivals their own tools take, with their own servers.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/coming_from_lines.sh"
zookeeper=/usr/share/zookeeper/bin/zkCli.sh
for program in $zookeeper etcd etcdctl; do
	command -v $program > /dev/null || skip_all "needs zookeeper, etcd-server and etcd-client"
done

serves() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> "$work/refused"; }

case_zookeeper() {
	local pid refused
	printf '%s\n' tickTime=2000 admin.enableServer=false clientPort=2181 \
		"dataDir=$work/zookeeper" > "$work/zoo.cfg"
	java -Dzookeeper.extendedTypesEnabled=true -cp "/etc/zookeeper/conf:/usr/share/java/*" \
		org.apache.zookeeper.server.ZooKeeperServerMain "$work/zoo.cfg" \
		> "$work/zookeeper.log" 2>&1 &
	pid=$!
	patience=60 wait_until "it serves" serves 2181
	lines 1 ZooKeeper > "$work/lines"
	limit 60 $zookeeper -server 127.0.0.1:2181 < "$work/lines" > "$work/said" 2>&1
	say "$(grep -v INFO "$work/said")"
	kill $pid
	refused='KeeperErrorCode|ot found|^ZooKeeper -server|Exception|does not exist'
	if grep -E "$refused" "$work/said"; then return 1; fi
}

case_etcd() {
	local pid line rc
	etcd --data-dir "$work/etcd" > "$work/etcd.log" 2>&1 &
	pid=$!
	patience=60 wait_until "it serves" serves 2379
	while IFS= read -r line; do
		say "$line"
		rc=0
		# a watch does not end, nor does a primary
		eval "limit 2 etcdctl $line" < /dev/null > "$work/said" 2>&1 || rc=$?
		say "$(cat "$work/said")"
		if grep USAGE "$work/said"; then return 1; fi
		case $line in
		watch* | elect*) is $rc 124 ;;
		*) is $rc 0 ;;
		esac
	done < <(lines 1 etcd)
	kill $pid
}

run_cases
