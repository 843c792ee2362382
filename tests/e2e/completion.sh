#!/bin/bash
# Completion of lsctl, by the tab key of a shell, with the scripts as they are installed: commands,
# options, values, cells, sessions, replicas and paths of a cell of three.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() { up_of_three; }

# The lines are typed into an interactive shell, each up to the tab, and must become the other.
typed_into() {
	local shell=$1 id
	shift
	id=$(session "$m")
	cat > "$work/lines" <<-L
		lsctl sta|lsctl status
		lsctl lock --lock-d|lsctl lock --lock-delay
		lsctl lock --jeopardy fr|lsctl lock --jeopardy freeze
		lsctl cell sho|lsctl cell show
		lsctl cell rot|lsctl cell rotate-key
		lsctl principal rem|lsctl principal remove
		lsctl principal remove --pu|lsctl principal remove --purge
		lsctl status --cell dc|lsctl status --cell dc1
		lsctl top ${m%??}|lsctl top $m
		lsctl acl show $m/only-|lsctl acl show $m/only-one
		lsctl replica remove 3|lsctl replica remove 3_
		lsctl session destroy ${id%?}|lsctl session destroy $id
		lsctl cell set session|lsctl cell set session~lease=
		lsctl lock x -- only-comm|lsctl lock x -- only-command
	L
	echo x > "$m/only-one"
	mkdir -p "$work/bin"
	ln -sf "$LSCTL" "$work/bin/lsctl"
	ln -sf /bin/true "$work/bin/only-command"
	LSFS_CELL=$cell/dc1.conf LSFS_KEY=$cell/admin.key PATH=$work/bin:/usr/bin:/bin \
		limit 60 python3 - "$work/lines" "$shell" "$@" <<-'P'
		import os, pty, select, sys, time
		lines, shell = sys.argv[1], sys.argv[2:]
		pid, fd = pty.fork()
		if pid == 0:
		    os.environ["TERM"] = "dumb"
		    os.execvp(shell[0], shell)

		def read_until(text, patience=10):
		    said, end = b"", time.monotonic() + patience
		    while text not in said and time.monotonic() < end:
		        if select.select([fd], [], [], 0.1)[0]:
		            said += os.read(fd, 4096)
		        said = said.replace(bytes([7]), b"")
		    assert text in said, (text, said)

		setup = os.environ["SETUP"]
		os.write(fd, (setup + "; PS1=READY; echo set'up'\n").encode())
		read_until(b"setup")
		for line in open(lines):
		    typed, wanted = line.rstrip("\n").replace("_", " ").replace("~", "_").split("|")
		    os.write(fd, b"echo begin'ning'\n")
		    read_until(b"beginning")
		    os.write(fd, (typed + "\t").encode())
		    read_until(wanted.encode())
		    os.write(fd, b"\x15")  # ctrl-u
		os.write(fd, b"exit\n")
	P
}

case_mounts() {
	"$LSCTL" __complete top "" | grep -qxF "$m"
	is "$("$LSCTL" __complete --cell none session destroy "" 2>&1)" ""
}

case_bash() {
	local script
	script=$(realpath "$srcdir/ctl/lsctl.bash")
	SETUP="source '$script'" typed_into bash --norc --noprofile -i
}

case_zsh() {
	local script
	mkdir "$work/functions"
	cp "$srcdir/ctl/lsctl.zsh" "$work/functions/_lsctl"
	SETUP="fpath=('$work/functions' \$fpath); autoload -U compinit; compinit -D -u" \
		typed_into zsh -f -i
}

case_down() { down; }

run_cases
