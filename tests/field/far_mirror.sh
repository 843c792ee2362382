#!/bin/bash
# lsctl mirror over a far way: one cell is mounted at three sites, 150 ms there and back, each of
# which keeps a directory of it in a cell of its own. Mount 1 is beside the source; mounts 2 to 4
# reach it through a relay of their site that passes everything on 75 ms later.
REPLICAS=1 MOUNTS=4
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/netns.sh"

sites="2 3 4"
files=${FILES:-10000}

cat > "$work/relay.py" <<- 'EOP'
	import asyncio, sys
	async def pump(reader, writer):
	    loop = asyncio.get_running_loop()
	    queue = asyncio.Queue(4096)
	    async def out():
	        while True:
	            at, data = await queue.get()
	            await asyncio.sleep(max(0, at - loop.time()))
	            if not data: break
	            writer.write(data)
	            await writer.drain()
	        writer.close()
	    task = asyncio.create_task(out())
	    while True:
	        try: data = await reader.read(65536)
	        except ConnectionError: data = b""
	        await queue.put((loop.time() + 0.075, data))
	        if not data: break
	    await task
	async def accept(reader, writer):
	    try: far = await asyncio.open_connection("10.78.0.1", 7077)
	    except OSError: return writer.close()
	    await asyncio.gather(pump(reader, far[1]), pump(far[0], writer), return_exceptions=True)
	async def main():
	    server = await asyncio.start_server(accept, "10.77.0.1", 7077)
	    await server.serve_forever()
	asyncio.run(main())
EOP

start_relay() {
	(exec nsenter --net="/run/netns/c$1" -- python3 "$work/relay.py" 2>> "$work/relay-$1.log") &
	echo $! > "$work/pid/relay$1"
}
end_relay() { kill "$(pid_of "relay$1")"; }
# now_ms, and how long ago that was.
now_ms() { echo $(($(date +%s%N) / 1000000)); }
took() { echo $(($(now_ms) - $1)); }
# everywhere COMMAND...: with each site's copy in $copy.
everywhere() {
	local i copy
	for i in $sites; do
		copy=$work/s$i/copy
		"$@" || return 1
	done
}
# The mirror makes whole files only.
shows() { [ "$(cat "$copy/$1" 2> "$work/no")" = "$2" ]; }

case_set_up() {
	local i
	make_network
	make_cell
	# The way around the relays.
	sed -i '/^\[cell\]/a listen = 0.0.0.0:7077' "$cell/1/cell.conf"
	ip -n r1 address add 10.78.0.1/24 dev eth
	for i in $sites; do
		ip -n "c$i" address add "10.78.0.$((100 + i))/24" dev eth
		# The relay's own, which nobody else is to take for that of the source.
		on "c$i" sysctl -qw net.ipv4.conf.all.arp_ignore=1
		ip -n "c$i" address add 10.77.0.1/32 dev lo
	done
	start_replica 1
	wait_until "there is a master" has_master
	start_mount 1
	mkdir "$work/m1/tree"
	for i in $sites; do
		start_relay "$i"
		start_mount "$i"
		mkdir "$work/s$i"
		limit 20 "$LSFS" --standalone "$work/site$i" "$work/s$i"
		mkdir "$work/s$i/copy"
		"$LSCTL" mirror "$work/m$i/tree" "$work/s$i/copy" 2> "$work/mirror-$i.log" &
	done
	echo begin > "$work/m1/tree/f"
	wait_until "it is there" everywhere shows f begin
}

case_a_change() {
	local i began worst=0 ms
	for i in $(seq 10); do
		echo "$i" > "$work/m1/tree/f"
		began=$(now_ms)
		until everywhere shows f "$i"; do pause_s 0.01; done
		ms=$(took "$began")
		[ "$ms" -le $worst ] || worst=$ms
	done
	say "a change was everywhere after $worst ms at most"
	[ $worst -lt "${MOST_MS:-1000}" ]
}

# The copy of each file is the version before or a later one, whole.
case_cut_off() {
	local i began ms
	for i in $sites; do end_relay "$i"; done
	limit 300 python3 - "$work/m1/tree" "$files" <<- 'EOP'
		import os, sys, concurrent.futures
		root, n = sys.argv[1], int(sys.argv[2])
		for d in range(100): os.mkdir(f"{root}/{d}")
		def make(i):
		    with open(f"{root}/{i % 100}/{i}", "w") as f: f.write(f"{i}\n" * 20)
		with concurrent.futures.ThreadPoolExecutor(16) as pool:
		    list(pool.map(make, range(n)))
	EOP
	echo end > "$work/m1/tree/f"
	everywhere shows f 10 # read as ever
	began=$(now_ms)
	while [ "$(took "$began")" -lt $((${CUT:-60} * 1000)) ]; do
		everywhere shows f 10
		pause_s 1
	done
	for i in $sites; do start_relay "$i"; done
	began=$(now_ms)
	# The last one of the mirror's walk may be any.
	everything() {
		[ "$(find "$copy" -type f ! -name ".mirror*" | wc -l)" = $((files + 1)) ] &&
			shows f end
	}
	patience=300 wait_until "all is there" everywhere everything
	ms=$(took "$began")
	say "$files files were everywhere $ms ms behind the end of the cut"
	everywhere eval '(cd "$copy" && for i in 0 77 '$((files - 1))'; do
		is "$(sort -u "$((i % 100))/$i")" "$i"; is "$(wc -l < "$((i % 100))/$i")" 20; done)'
	[ "$ms" -lt "${BACK_MS:-180000}" ]
}

run_cases
