#!/bin/bash
# lsctl cell and lsctl key: what is made, with which modes, and what is refused. Nothing runs here.
. "$(dirname "$0")/lib.sh"

three=(--replica a.example:7000 --replica b.example:7000 --replica '[::1]:7000')

create=("$LSCTL" cell create)

# usage TEXT COMMAND...: exit code 2, one line with that text.
usage() { one_line 2 "$@"; }

modes() { (cd "$1" && find . -mindepth 1 -printf '%m %P\n' | sort -k 2); }

case_create() {
	"${create[@]}" dc1 --dir "$work/c" "${three[@]}" > "$work/out" 2>&1
	is "$(wc -l < "$work/out")" 5
	is "$(modes "$work/c")" "$(printf '%s\n' \
		'700 1' '644 1/cell.conf' '600 1/replica.key' '600 1/signing.key' \
		'700 2' '644 2/cell.conf' '600 2/replica.key' '600 2/signing.key' \
		'700 3' '644 3/cell.conf' '600 3/replica.key' '600 3/signing.key' \
		'600 admin.key' '644 dc1.conf')"
	for i in 1 2 3; do
		cmp "$work/c/dc1.conf" "$work/c/$i/cell.conf"
		cmp "$work/c/1/signing.key" "$work/c/$i/signing.key"
		grep -qF "key = $("$LSCTL" key show "$work/c/$i/replica.key")" "$work/c/dc1.conf"
	done
	grep -qF "signing_key = $("$LSCTL" key show "$work/c/1/signing.key")" "$work/c/dc1.conf"
	grep -qF "admin_key = $("$LSCTL" key show "$work/c/admin.key")" "$work/c/dc1.conf"
	grep -q '^principal admin ' "$work/c/admin.key"
	# No secret is in what is given to everyone.
	for secret in $(cat "$work"/c/*/*.key "$work/c/admin.key" | grep -oE '[^ ]+$'); do
		if grep -qF -e "$secret" "$work/c/dc1.conf"; then return 1; fi
	done
}

case_settings() {
	"${create[@]}" dc1 --dir "$work/s" "${three[@]}" --set session_lease=15s \
		--set quota_bytes=2G > "$work/out"
	grep -qx 'session_lease = 15s' "$work/s/dc1.conf"
	grep -qx 'quota_bytes = 2G' "$work/s/1/cell.conf"
	usage "colour=1: no such setting" "${create[@]}" dc1 --dir "$work/t" "${three[@]}" \
		--set colour=1
	usage "heartbeat: at most a third" "${create[@]}" dc1 --dir "$work/t" "${three[@]}" \
		--set heartbeat=400ms
	usage "only for create" "$LSCTL" cell show --set heartbeat=400ms
	[ ! -e "$work/t" ]
}

case_show() {
	"$LSCTL" cell show --cell "$work/c/dc1.conf" | grep -qE '^replica 3 +\[::1\]:7000$'
	LSFS_CELL=$work/c/2/cell.conf "$LSCTL" cell show | grep -qE '^cell +dc1$'
	"$LSCTL" --json cell show --cell "$work/c/dc1.conf" | python3 -c '
import json, sys
c = json.load(sys.stdin)
assert c["cell"] == "dc1" and [r["id"] for r in c["replicas"]] == [1, 2, 3], c
assert len({r["key"] for r in c["replicas"]} | {c["admin_key"], c["signing_key"]}) == 5, c'
	refused "no-such-cell: no such cell" "$LSCTL" cell show --cell no-such-cell
	refused "$work/none.conf: No such file" "$LSCTL" cell show --cell "$work/none.conf"
}

case_overwrites_nothing() {
	local before
	before=$(cd "$work/c" && find . -type f -exec sha256sum {} + | sort)
	refused "$work/c/1: exists already" "${create[@]}" dc1 --dir "$work/c" "${three[@]}"
	refused "$work/c/1: exists already" "${create[@]}" dc2 --dir "$work/c" --replica x:1
	is "$(cd "$work/c" && find . -type f -exec sha256sum {} + | sort)" "$before"
	for there in 2 admin.key dc1.conf; do
		rm -rf "$work/o"
		mkdir "$work/o"
		echo precious > "$work/o/$there"
		refused "$work/o/$there: exists already" \
			"${create[@]}" dc1 --dir "$work/o" "${three[@]}"
		is "$(ls -A "$work/o")" "$there"
		is "$(cat "$work/o/$there")" precious
	done
	ln -s "$work/o/elsewhere" "$work/o/admin.key"
	rm "$work/o/dc1.conf"
	refused "exists already" "${create[@]}" dc1 --dir "$work/o" "${three[@]}"
	[ ! -e "$work/o/elsewhere" ]
}

case_nothing_half_done() {
	refused "$work/missing/c" "${create[@]}" dc1 --dir "$work/missing/c" "${three[@]}"
	[ ! -e "$work/missing" ]
	mkdir "$work/small"
	# A file system with room for some of the files, but not for all.
	for inodes in 3 5 8 12 15; do
		mount -t tmpfs -o size=1m,nr_inodes=$inodes small "$work/small"
		refused "No space left" "${create[@]}" dc1 --dir "$work/small/c" "${three[@]}"
		is "$(ls -A "$work/small")" ""
		umount "$work/small"
	done
	mount -t tmpfs -o size=1m,nr_inodes=17 small "$work/small"
	"${create[@]}" dc1 --dir "$work/small/c" "${three[@]}"
	umount "$work/small"
}

case_wrong_use() {
	usage "CELL: needed" "${create[@]}"
	usage "--dir: needed" "${create[@]}" dc1 "${three[@]}"
	usage "--replica: needed" "${create[@]}" dc1 --dir "$work/w"
	usage "../x: not a cell's name" "${create[@]}" ../x --dir "$work/w" "${three[@]}"
	usage "unexpected" "${create[@]}" dc1 dc2 --dir "$work/w" "${three[@]}"
	for address in nowhere a:0 a:65536 a:x : ::1:7 'a b:7'; do
		usage "$address: not HOST:PORT" \
			"${create[@]}" dc1 --dir "$work/w" --replica "$address"
	done
	usage "a:1: given twice" "${create[@]}" dc1 --dir "$work/w" --replica a:1 --replica a:1
	usage "more than 7" "${create[@]}" dc1 --dir "$work/w" --replica=a:{1,2,3,4,5,6,7,8}
	usage "neither create, show, set, refresh nor rotate-key" "$LSCTL" cell destroy
	usage "only for create" "$LSCTL" cell show --dir "$work/w"
	[ ! -e "$work/w" ]
}

case_even_numbers_are_warned_of() {
	"${create[@]}" two --dir "$work/two" --replica a:1 --replica b:1 2>&1 > "$work/out" |
		grep -q '2 replicas outlive no more failures than 1'
	[ -e "$work/two/two.conf" ]
}

case_key() {
	local public
	public=$("$LSCTL" key generate "$work/ann.key" ann)
	is "${#public}" 43
	is "$(stat -c %a "$work/ann.key")" 600
	is "$("$LSCTL" key show "$work/ann.key")" "$public"
	"$LSCTL" key show "$work/ann.key" --json | grep -q '"name": "ann"'
	refused "exists already" "$LSCTL" key generate "$work/ann.key" ann
	is "$("$LSCTL" key show "$work/ann.key")" "$public"
	"$LSCTL" key generate "$work/me.key" > /dev/null
	grep -q "^principal $(id -un) " "$work/me.key"
	[ "$("$LSCTL" key show "$work/me.key")" != "$public" ]
	chmod 640 "$work/ann.key"
	refused "chmod 600" "$LSCTL" key show "$work/ann.key"
	chmod 600 "$work/ann.key"
	echo >> "$work/ann.key"
	refused "damaged" "$LSCTL" key show "$work/ann.key"
	refused "No such file" "$LSCTL" key show "$work/none"
	refused "No such file" "$LSCTL" key generate "$work/none/k"
	usage "a/b: not a principal's name" "$LSCTL" key generate "$work/k2" a/b
	usage "show" "$LSCTL" key show
	[ ! -e "$work/k2" ]
}

run_cases
