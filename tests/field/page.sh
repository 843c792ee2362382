#!/bin/bash
# A replica's page as a browser shows it: in the right colour, and readable on a telephone, also
# with hostile names and thousands of sessions (THOUSANDS=10: so many). The pictures are in
# tests/logs, for people to look at.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/loopback.sh"
command -v chromium > /dev/null || skip_all "needs chromium"

pictures=$PWD/tests/logs
THOUSANDS=${THOUSANDS:-5}
WIDTH=360 # of a small telephone, in CSS pixels
GREEN="rgb(26, 127, 55)" AMBER="rgb(154, 103, 0)" RED="rgb(207, 34, 46)"

port() { echo $((8000 + $1)); }
start_http() { "$LSCELL" --http "$(port "$1")" "$cell/$1" 2>> "$work/lscell-$1.log" & }
page() { limit 20 curl -s --max-time 15 "http://127.0.0.1:$(port "$1")/"; }
tells() { page "$1" | grep -q "<h1 class=\"$2\""; }

# A browser's window has no less than 500 pixels, a frame in it has.
browser() {
	limit 120 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
		--user-data-dir="$work/browser" --window-size=$((WIDTH + 40)),2400 "$@" \
		"file://$work/frame.html" 2>> "$work/browser.log"
}

# shown N NAME COLOUR: the page of replica N fits and is of that colour; the picture NAME.
shown() {
	page "$1" | sed '/http-equiv="refresh"/d' > "$work/page.html"
	cat > "$work/frame.html" <<- EOF
		<!DOCTYPE html><title>not loaded</title>
		<iframe src="page.html" width="$WIDTH" height="2200" style="border:0" onload="
			const d = this.contentDocument, heading = d.querySelector('h1');
			const colour = this.contentWindow.getComputedStyle(heading).color;
			document.title = [d.documentElement.scrollWidth, d.scripts.length,
				d.images.length, colour].join(' ');
		"></iframe>
	EOF
	browser --dump-dom > "$work/dom"
	is "$(sed -n 's,.*<title>\(.*\)</title>.*,\1,p' "$work/dom" | head -n 1)" "$WIDTH 0 0 $3"
	browser --screenshot="$pictures/page-$2.png"
	[ "$(wc -c < "$pictures/page-$2.png")" -gt 5000 ]
}

case_set_up() {
	create_of_three --set session_lease=60s
	for i in 1 2 3; do start_http $i; done
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m"
}

case_healthy() {
	wait_until "all is well" tells 2 good
	shown 2 healthy "$GREEN"
}

case_hostile_names() {
	local name pid
	name='<img src=x onerror=alert(1)>'$(printf 'W%.0s' {1..180})
	touch "$m/$name"
	flock -o "$m/$name" sleep 600 &
	pid=$!
	wait_until "it is locked" grep -q exclusive "$m/.cell/locks"
	flock "$m/$name" true &
	wait_until "it shows" eval 'page 2 | grep -q "img src"'
	shown 2 hostile "$GREEN"
	kill $pid
	wait $pid $! || :
}

come() { tail -n 1 "$work/watchers.$1" 2> "$work/no" | grep -q "^1000 "; }
counts_them() { page "$(master)" | grep -q "<td class=\"n\">${THOUSANDS}0[0-9][0-9]"; }

# A thousand are about as many as a principal may have, and the page says so.
case_thousands_of_sessions() {
	local crowds=() i patience=120
	touch "$m/watched"
	for ((i = 1; i <= THOUSANDS; i++)); do
		"$LSCTL" key generate "$work/key.$i" "p$i" > "$work/pub"
		cell_ctl principal add "p$i" "$(cat "$work/pub")" > "$work/added"
		"$TOOLS/watchers" "$conf" "$work/key.$i" 1000 "$(stat -c %i "$m/watched")" 0 \
			> "$work/watchers.$i" &
		crowds+=($!)
		wait_until "thousand $i is there" come $i
	done
	wait_until "the page is made" counts_them
	shown "$(master)" crowded "$AMBER"
	kill "${crowds[@]}"
	wait "${crowds[@]}" || :
}

case_degraded() {
	local victim=1
	[ "$(master)" != 1 ] || victim=2
	kill_replica $victim
	wait_until "it shows" tells 3 degraded
	shown 3 degraded "$AMBER"
	start_http $victim
	wait_until "all is well" tells 3 good
}

case_no_master() {
	kill_replica 1
	kill_replica 2
	wait_until "it shows" tells 3 down
	shown 3 no-master "$RED"
	start_http 1
	start_http 2
	wait_until "all is well" tells 3 good
}

run_cases
