#!/bin/bash
# Principals: their keys are added to a running cell, and removed again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

ann=$work/ann.key
as_ann=("$LSCTL" --cell "$cell/dc1.conf" --key "$ann")
as_admin=("$LSCTL" --cell "$cell/dc1.conf" --key "$cell/admin.key")
mount_as_ann() { limit 30 "$LSFS" -o "key=$ann" "$cell/dc1.conf" "$m2"; }

case_added() {
	up_of_three
	"$LSCTL" key generate "$ann" ann > "$work/ann.pub"
	one_line 1 "the cell does not know this key" "$LSFS" -o "key=$ann" "$cell/dc1.conf" "$m2"
	one_line 1 "the cell does not know this key" "${as_ann[@]}" session list
	cell_ctl principal add ann "$(cat "$work/ann.pub")"
	is "$(cell_ctl principal list | cut -d ' ' -f 1 | xargs)" "admin ann"
	is "$(cell_ctl --json principal list | grep -c public_key)" 2
	mount_as_ann
	echo hers > "$m2/hers"
	is "$(cat "$m/hers")" hers
	limit 20 "${as_ann[@]}" session list | grep -q "^[0-9]* *ann "
	is "$(limit 20 "${as_ann[@]}" session list | grep -c admin)" 0
}

case_refused() {
	one_line 1 "in use" "${as_admin[@]}" principal add ann "$("$LSCTL" key show \
		"$cell/admin.key")"
	one_line 1 "in use" "${as_admin[@]}" principal add bob "$(cat "$work/ann.pub")"
	one_line 1 "no such principal" "${as_admin[@]}" principal remove bob
	one_line 1 "no administrator would be left" "${as_admin[@]}" principal remove admin
	one_line 1 "not an administrator" "${as_ann[@]}" principal remove admin
	one_line 1 "not an administrator" "${as_ann[@]}" principal list
	one_line 1 "not an administrator" "${as_ann[@]}" session destroy --principal admin
	mkdir "$work/lasting"
	one_line 1 "acl/lasting does not name" "$LSFS" -o "lasting,key=$ann" "$cell/dc1.conf" \
		"$work/lasting"
	one_line 2 "not a public key" "${as_admin[@]}" principal add bob x
	one_line 2 "not a principal's name" "${as_admin[@]}" principal add b/b \
		"$(cat "$work/ann.pub")"
	one_line 2 "PUBLICKEY: needed" "${as_admin[@]}" principal add bob
	one_line 2 "neither list, add, remove nor recover" "${as_admin[@]}" principal rename ann bob
}

# The next master, which has not seen the open, lets it go on.
case_an_open_file_keeps_its_rights_over_a_fail_over() {
	local victim
	echo ours > "$m/taken"
	exec 9<> "$m2/taken"
	setfattr -n user.ls.acl.change -v admin "$m/taken"
	echo admin > "$m/acl/ours"
	setfattr -n user.ls.acl.read -v ours "$m/taken"
	setfattr -n user.ls.acl.write -v ours "$m/taken"
	refused "Permission denied" cat "$m2/taken"
	victim=$(master)
	kill_replica "$victim"
	wait_until "another master" another_master "$victim"
	is "$(limit 20 cat <&9)" ours
	limit 20 /bin/echo hers >&9
	is "$(cat "$m/taken")" "$(printf 'ours\nhers')"
	refused "Permission denied" cat "$m2/taken"
	exec 9>&-
	start_replica "$victim"
}

# Its lock is free at once, its ephemeral file gone; its mount finds no session any more.
case_removed() {
	leases 10s 12s
	exec 9> "$m2/lock"
	flock 9
	python3 -c 'import os, sys, time; os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o1644)
time.sleep(60)' "$m2/gone" 9>&- &
	local opener=$!
	wait_until "the ephemeral file is there" test -e "$m/gone"
	cell_ctl principal remove ann
	limit 5 flock "$m/lock" true
	wait_until "the ephemeral file is gone" test ! -e "$m/gone"
	is "$(cell_ctl session list | grep -c ' ann ')" 0
	kill $opener
	wait $opener || true
	exec 9>&-
	mkdir "$work/m3"
	one_line 1 "the cell does not know this key" "$LSFS" -o "key=$ann" "$cell/dc1.conf" \
		"$work/m3"
}

# The key is known again, but what was the former principal's is not hers.
case_added_again() {
	limit 10 umount "$m2"
	cell_ctl principal add ann "$(cat "$work/ann.pub")"
	mount_as_ann
	is "$(cat "$m2/hers")" hers
	is "$(cell_ctl session list | grep -c ' ann ')" 1
	limit 20 "${as_ann[@]}" session destroy --principal ann
	limit 5 umount "$m2"
	is "$(cell_ctl session list | grep -c ' ann ')" 0
}

recover=("$LSCTL" principal recover)
new_key() { "$LSCTL" key show "$work/new.key"; }

# The administrator's key is lost. An operator on the host of a replica, master or not, gives it
# another one; what the former key had ends, and the key is unknown from then on.
case_recovered() {
	mv "$cell/admin.key" "$work/lost.key"
	"$LSCTL" key generate "$work/new.key" admin > /dev/null
	one_line 1 "does not know this key" "$LSCTL" --cell "$cell/dc1.conf" \
		--key "$work/new.key" session list
	limit 30 "${recover[@]}" admin "$(new_key)" --dir "$cell/2"
	limit 30 "${recover[@]}" admin "$(new_key)" --dir "$cell/3" # again
	mv "$work/new.key" "$cell/admin.key"
	is "$(cell_ctl principal list | cut -d ' ' -f 1 | xargs)" "admin ann"
	one_line 1 "does not know this key" "$LSCTL" --cell "$cell/dc1.conf" \
		--key "$work/lost.key" session list
	wait_until "the session is over" is_in_state "$m" expired
	limit 10 umount "$m"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	is "$(cat "$m/hers")" hers
	grep -rqh "principal admin is to be given another key" --include=*log "$cell"
}

# ACL files that hold the name give their rights to the next one that has it: they are named, and
# lose the name, also one that the operator may not write and one that a mount has cached.
case_named_by_acl_files() {
	"$LSCTL" key generate "$work/eve.key" eve > "$work/eve.pub"
	echo kept > "$m/for-eve"
	printf 'eve\nann # on call\n' > "$m/acl/team"
	printf '# nobody else\neve/root\n' > "$m/acl/watch"
	setfattr -n user.ls.acl.read -v team "$m/for-eve"
	setfattr -n user.ls.acl.write -v watch "$m/acl/watch"
	cell_ctl principal add eve "$(cat "$work/eve.pub")" 2> "$work/err"
	is "$(cut -d : -f 2 "$work/err" | xargs)" "acl/team acl/watch"
	grep -q "names eve already" "$work/err"
	cell_ctl principal remove eve 2> "$work/err"
	is "$(grep -c "names eve still" "$work/err")" 2
	is "$(cat "$m/acl/team")" "$(printf 'eve\nann # on call')"
	cell_ctl principal remove --purge eve 2> "$work/err"
	is "$(cat "$work/err")" ""
	is "$(cat "$m/acl/team")" "ann # on call"
	is "$(cat "$m/acl/watch")" "# nobody else"
	one_line 1 "no such principal" "${as_admin[@]}" principal remove --purge eve
	one_line 2 "only for remove" "${as_admin[@]}" principal list --purge
	cell_ctl principal add eve "$(cat "$work/eve.pub")" 2> "$work/err"
	is "$(cat "$work/err")" ""
	cell_ctl principal remove eve
}

# A replica's key recovers an administrator, and does nothing else; no other key does.
case_not_recovered() {
	local key follower forged=$work/forged
	"$LSCTL" key generate "$work/new.key" admin > /dev/null
	key=$(new_key)
	one_line 1 "is no administrator" "${recover[@]}" ann "$key" --dir "$cell/1"
	one_line 1 "no such principal" "${recover[@]}" bob "$key" --dir "$cell/1"
	one_line 1 "another principal has" "${recover[@]}" admin "$(cat "$work/ann.pub")" \
		--dir "$cell/1"
	one_line 2 "not a public key" "${recover[@]}" admin x --dir "$cell/1"
	one_line 2 "needed" "${recover[@]}" admin "$key"
	one_line 2 "only for recover" "$LSCTL" principal list --dir "$cell/1"
	one_line 1 "Permission denied" setpriv --reuid 4001 --regid 4001 --clear-groups \
		"${recover[@]}" admin "$key" --dir "$cell/1"

	# With the files of another cell, and with a key that is no replica's.
	"$LSCTL" cell create dc1 --dir "$work/other" --replica "127.0.0.1:$(free_port)" > /dev/null
	one_line 1 "does not answer" "${recover[@]}" admin "$key" --dir "$work/other/1"
	mkdir "$forged"
	cp "$cell/1/cell.conf" "$cell/1/signing.key" "$work/other/1/replica.key" "$forged"
	one_line 1 "none of the replicas" "${recover[@]}" admin "$key" --dir "$forged"
	follower=$(($(master) % 3 + 1))
	sed "s/$("$LSCTL" key show "$cell/$follower/replica.key")/$("$LSCTL" key show \
		"$forged/replica.key")/" "$cell/dc1.conf" > "$forged/cell.conf"
	one_line 1 "does not know this key" "${recover[@]}" admin "$key" --dir "$forged"
	is "$(cell_ctl principal list | cut -d ' ' -f 1 | xargs)" "admin ann"
}

# A replica that was away learns of it with the log.
case_on_a_replica_that_was_away() {
	kill_replica 3
	"$LSCTL" key generate "$work/bob.key" bob > "$work/bob.pub"
	cell_ctl principal add bob "$(cat "$work/bob.pub")"
	start_replica 3
	kill_replica 1
	limit 60 "$LSCTL" --cell "$cell/dc1.conf" --key "$work/bob.key" session list > /dev/null
	start_replica 1
	down
}

run_cases
