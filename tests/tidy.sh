#!/bin/sh
# What a reader may rely on without looking: which folder includes which, how long lines, functions
# and files get, that everything is in the makefile, that every prototype is explained, and that no
# sentence begins with "who" or "what".
# tests/tidy.allow lists dispatchers that are longer: FILE FUNCTION.
# Two numbers may only fall, so a change that lowers one of them writes the lower one here: the
# frames of functions, in tenths of a percent of the product's lines, and the short static functions
# that have one caller.
set -u
export LC_ALL=C

cd "${srcdir:-$(dirname "$0")/..}" || exit 1
allow=tests/tidy.allow
frames=254
single=404

# In a clone what git knows, in an unpacked archive what is there.
tracked() {
	if [ "$(git rev-parse --show-toplevel 2> /dev/null)" = "$PWD" ]; then
		git ls-files
	else
		find cell ctl docs fs tests README -type f
	fi
}

sources=$(tracked | grep -E '\.[ch]$' | while read -r f; do [ -e "$f" ] && echo "$f"; done)
headers=$(echo "$sources" | grep '\.h$')
product=$(echo "$sources" | grep -E '^(cell|ctl|fs)/')
scripts=$(tracked | grep -E '\.sh$|^tests/run$|^bootstrap$' | grep -v '^tests/tidy.sh$')

# Every check prints what is wrong, a line each. $sources are words.
# shellcheck disable=SC2086

# Includes point down only; the protocol logic sees no driver, fs and ctl never see each other.
check_arrows() {
	awk '
		BEGIN {
			base = "cell/base/ "
			wire = "cell/wire/ " base
			core = "cell/replica/ cell/master/ cell/tree/ cell/paxos/ " wire
			arrow["cell/base/"] = base
			arrow["cell/wire/"] = wire
			arrow["cell/paxos/"] = "cell/paxos/ " wire
			arrow["cell/tree/"] = "cell/tree/ " wire
			arrow["cell/master/"] = "cell/master/ cell/tree/ " wire
			arrow["cell/replica/"] = core
			arrow["cell/client/"] = "cell/client/ " wire
			arrow["cell/sys/"] = "cell/sys/ " base
			arrow["cell/config/"] = "cell/config/ cell/sys/ " wire
			arrow["cell/net/"] = "cell/net/ cell/sys/ " wire
			arrow["cell/store/"] = "cell/store/ cell/config/ cell/sys/ cell/tree/ cell/paxos/ " wire
			arrow["cell/copy/"] = "cell/copy/ cell/store/ cell/sys/ " wire
			arrow["cell/server/"] = "cell/server/ cell/copy/ cell/config/ " core
			arrow["cell/host/"] = "cell/host/ cell/server/ cell/copy/ cell/store/ cell/net/ " \
			    "cell/config/ cell/sys/ " core
			view = "cell/view/ cell/net/ cell/config/ cell/sys/ " wire
			arrow["cell/view/"] = view
			arrow["cell/page/"] = "cell/page/ cell/server/ cell/copy/ " view core
			arrow["cell/host/lscell.c"] = "cell/page/page.h cell/page/web.h " arrow["cell/host/"]
			arrow["fs/mount/"] = "fs/mount/ " arrow["cell/client/"]
			# A request of the kernel goes to the engine, whose answers come back as calls.
			arrow["fs/fuse/"] = "fs/fuse/ fs/engine.h fs/mount/mount.h cell/sys/ " \
			    arrow["cell/client/"]
			arrow["fs/"] = "fs/ cell/host/standalone.h cell/host/server_process.h cell/host/heap_trim.h " \
			    "cell/server/server.h cell/net/ " \
			    "cell/config/ cell/sys/ " arrow["cell/client/"]
			# lsctl verify checks what a master has signed; lsctl backup fetches.
			tools = "cell/master/sequencer.h cell/copy/state_fetch.h " \
			    "cell/store/ cell/net/ cell/config/ cell/sys/ " wire
			arrow["ctl/"] = "ctl/ cell/view/ " tools
		}
		# The longest folder of the table that the file is in.
		function home(file, folder, best) {
			for (folder in arrow)
				if (index(file, folder) == 1 && length(folder) > length(best))
					best = folder
			return best
		}
		/^#include "/ {
			split($0, part, "\"")
			if (FILENAME ~ /^tests\// || part[2] == "config.h")
				next
			n = split(arrow[home(FILENAME)], to, " ")
			for (i = 1; i <= n; i++)
				if (index(part[2], to[i]) == 1)
					next
			print FILENAME ":" FNR ": includes " part[2]
		}
	' $sources
}

check_lines() {
	awk '{
		line = ""
		n = split($0, piece, "\t")
		for (i = 1; i < n; i++)
			line = sprintf("%s%s%*s", line, piece[i], 8 - length(line piece[i]) % 8, "")
		if (length(line piece[n]) > 100)
			print FILENAME ":" FNR ": " length(line piece[n]) " columns"
	}' $sources $scripts
}

# A file of tests is a list; it may get a little longer.
check_files() {
	awk '
		function most() {
			if (FILENAME ~ /^tests\/(sim|crash|calls)\//)
				return 470
			return FILENAME ~ /^tests\/|schema.h$/ ? 720 : 600
		}
		FNR == most() + 1 { print FILENAME ": more than " most() " lines" }
	' $sources $scripts
}

# A brace alone at the left margin begins or ends a function; its name stands above.
check_functions() {
	awk '
		FILENAME == ARGV[1] { allowed[$1 " " $2] = 1; next }
		/^[a-z_][a-z_0-9]*\(/ { name = substr($0, 1, index($0, "(") - 1) }
		/^[A-Z_]*TEST[A-Z_]*\(/ { name = $0; gsub(/^[A-Z_]*\(|[,)].*/, "", name) }
		/^{$/ { start = FNR }
		/^}$/ && start {
			if (FNR - start - 1 > 70 && !((FILENAME " " name) in allowed))
				print FILENAME ":" start ": " name " has " FNR - start - 1 " lines"
			start = 0
		}
	' $allow $sources
}

# The frame of a function is what it costs beside its thought: the lines of its type, name and
# arguments, the two braces at the margin, and the empty line behind it.
check_frames() {
	awk -v most="$frames" '
		FNR == 1 { head = inside = closed = 0 }
		closed && /^$/ { frames++ }
		{ closed = 0 }
		/^{$/ { frames += head + 1; inside = 1; head = 0; next }
		inside && /^}$/ { frames++; inside = 0; closed = 1; next }
		inside { next }
		/^$|^#|^}|;$|^\/\*|^ \*|\*\/$/ { head = 0; next }
		{ head++ }
		END {
			share = int(1000 * frames / NR + 0.5)
			if (share > most)
				print "frames are " share " of 1000 lines: more than " most
		}
	' $product
}

# Static functions of at most twelve lines whose name stands in their file twice: where they are,
# and where they are called.
check_single() {
	awk -v most="$single" '
		function file_ends(name) {
			for (name in size)
				if (size[name] <= 12 && uses[name] == 2 && calls[name] == 2)
					short++
			delete size
			delete uses
			delete calls
		}
		FNR == 1 { file_ends(); own = start = 0 }
		/^static / { own = 1 }
		/^[a-z_][a-z_0-9]*\(/ { name = substr($0, 1, index($0, "(") - 1) }
		!start && /^$|;$/ { own = 0 }
		/^{$/ { start = FNR }
		/^}$/ && start {
			if (own)
				size[name] = FNR - start - 1
			own = start = 0
		}
		{
			each = /\\$/ ? 2 : 1 # a macro calls wherever it is used
			for (line = $0; match(line, /[a-z_][a-z_0-9]*\(?/);) {
				word = substr(line, RSTART, RLENGTH)
				line = substr(line, RSTART + RLENGTH)
				if (sub(/\($/, "", word))
					calls[word] += each
				uses[word] += each
			}
		}
		END {
			file_ends()
			if (short > most)
				print short " short functions have one caller: more than " most
		}
	' $product
}

# A program of one source is named there without its ending.
check_makefile() {
	echo "$sources" | awk '
		NR == FNR { for (i = 1; i <= NF; i++) named[$i] = 1; next }
		{ program = $0; sub(/\.c$/, "", program) }
		!($0 in named) && !(program in named) { print $0 ": not in Makefile.am" }
	' Makefile.am -
}

check_words() {
	grep -nwE 'TODO|FIXME|XXX' /dev/null $sources $scripts
}

# set -e goes on after a `!` whose command succeeds: such a line checks nothing (lib.sh has `not`).
check_not() {
	grep -nE '^[[:space:]]+! ' /dev/null $(echo "$scripts" | grep -E '^tests/(e2e|field)/')
}

# A header says what it is for; prototypes stand in paragraphs that hold a comment.
check_comments() {
	awk '
		function paragraph_ends() {
			if (bare && !comment)
				print bare
			bare = comment = ""
		}
		FNR == 1 { paragraph_ends() }
		FNR == 1 && !/^\/\*/ { print FILENAME ": does not begin with its purpose" }
		/^[ \t]*$/ { paragraph_ends() }
		/\/\*|\*\// { comment = 1 }
		/^[a-z_].*[ *][a-z_0-9]+\(/ && !/^(static|typedef)/ && !bare {
			bare = FILENAME ":" FNR ": prototype without a comment"
		}
		END { paragraph_ends() }
	' $headers
}

# Folders whose prototypes have a comment each, not only one for a paragraph.
explained="cell/base cell/client cell/config cell/copy cell/host cell/master cell/net cell/page cell/paxos cell/replica
	cell/server cell/store cell/sys cell/tree cell/view cell/wire ctl ctl/commands fs fs/fuse fs/mount"

check_prototypes() {
	for folder in $explained; do
		tracked | grep "^$folder/[^/]*\.h$"
	done | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | xargs awk '
		FNR == 1 { before = ""; goes_on = 0 }
		/^[a-z_][^;]*[ *][a-z_0-9]+\(/ && !/^(static|typedef)/ && !goes_on {
			if (before !~ /\*\/[ \t]*$/)
				print FILENAME ":" FNR ": no comment of its own"
			goes_on = 1
		}
		/;/ { goes_on = 0 }
		{ before = $0 }
	'
}

# A state is made of parts, and each part is written by its own file. A line is: folder, part, files.
check_writers() {
	while read -r folder part files; do
		others=
		for f in "$folder"/*.c; do
			case " $files " in
			*" ${f##*/} "*) ;;
			*) others="$others $f" ;;
			esac
		done
		grep -nE -e "[a-z]->$part\.[a-z_]+(\[[^]]*\])?(\.[a-z_]+)* *([-+|&]?=[^=]|\+\+|--)" \
			-e "(\+\+|--)[a-z]+->$part\." \
			-e "(INSERT|REMOVE)[A-Z_]*\([^;]*&[a-z]+->$part\." $others /dev/null
	done <<- EOF
		cell/client connection client_connection.c
		cell/client keepalive client_keepalive.c
		cell/client replies client.c
		cell/client caching caching.c
		cell/client requests client_request.c
		cell/client session client_session.c
		cell/client standby client_connection.c
		cell/client waits lock_waits.c
		cell/client watches watches.c
		cell/master await failover_barrier.c
		cell/master barrier failover_barrier.c
		cell/master connections master_connection.c
		cell/master delays delay_timer.c
		cell/master ending master_session.c
		cell/master keepalive master_keepalive.c
		cell/master events master_events.c
		cell/master telling master_events.c
		cell/master lease session_lease.c
		cell/master lengthened session_lease.c
		cell/master lowered session_lease.c
		cell/master opening master_session.c
		cell/master order order.c
		cell/master proposals proposal.c
		cell/master queues lock_queue.c
		cell/master requests master_request.c
		cell/master sessions master_session.c
		cell/master tickets request_proof.c
		cell/master timers timer.c
		cell/master usage principal_usage.c
		cell/master waiters lock_queue.c
		cell/master watches watch_table.c
		cell/master missed missed_events.c
		cell/master withdrawals lock_request.c
		cell/paxos acceptor acceptor.c recover.c
		cell/paxos candidate proposer.c
		cell/paxos group reconfig.c
		cell/paxos leader replication.c
		cell/paxos learner learner.c recover.c
		cell/paxos lease lease.c
		cell/paxos promises promises.c
		cell/paxos repair recover.c
		cell/paxos rounds acceptor.c
		cell/paxos witness witness.c
		cell/replica admin admin.c
		cell/replica backlog replica_update.c
		cell/replica disk replica.c replica_update.c
		cell/replica mastership mastership.c
		cell/replica members member_list.c
		cell/replica settings replica_settings.c
		cell/tree commands apply.c
		cell/tree counts quota.c
		cell/tree delays lock_delay.c
		cell/tree dirty dirty_rows.c load.c
		cell/tree epochs tree.c load.c
		cell/tree loading load.c
		cell/tree locks lock_table.c load.c
		cell/tree members member_table.c load.c
		cell/tree nodes node.c load.c
		cell/tree position apply.c load.c
		cell/tree principals principal_table.c
		cell/tree removed children.c
		cell/tree sessions session_table.c
		cell/tree settings settings.c load.c
		cell/tree slices slice.c load.c
		fs/mount calls call.c
		fs/mount handles handle.c
		fs/mount kernel_cache kernel_cache.c
		fs/mount locks mount_lock.c
		fs/mount metrics metrics.c
		fs/mount refusals refusal.c
		fs/mount session mount.c
		fs/mount stale stale.c
		fs/mount versions snapshot.c
	EOF
}

# Folders and files whose comments and pages are held to plain English.
plain="cell/base cell/config cell/copy cell/sys cell/net cell/store ctl fs/*.[ch] fs/fuse README docs/*.[158]
	fs/mount cell/server cell/host cell/wire docs/architecture.md docs/decisions.md docs/protocol.md docs/testing.md
	docs/faults.md docs/operations.md docs/semantics.md docs/storage.md docs/style.md
	cell/client cell/paxos cell/master cell/tree cell/replica
	docs/paxos.md
	tests/transcripts/mount tests/transcripts/client tests/transcripts/*.[ch]
	tests/unit/mount_bench.[ch] tests/unit/test_mount_fuzz.c"

# A sentence has a subject that names a thing: it does not begin with one of these pronouns. With a
# capital one of them begins a sentence wherever it stands; in small letters it may begin a comment
# or a cell of a table.
check_pronouns() {
	tracked | grep -E '\.([ch158]|md|txt)$|^README$' | while read -r f; do
		for place in $plain; do
			case $f in "$place" | "$place"/*) [ ! -e "$f" ] || echo "$f" ;; esac
		done
	done | xargs awk '
		# The comments of a source, and what is no code in a page.
		function prose(line, at, text) {
			if (FILENAME !~ /\.[ch]$/) {
				gsub(/`[^`]*`/, "code", line)
				gsub(/ what u8/, " field", line)
				return line
			}
			while (line != "") {
				at = index(line, inside ? "*/" : "/*")
				if (inside)
					text = text (at ? substr(line, 1, at + 1) : line)
				if (!at)
					break
				if (!inside)
					text = text "/*"
				line = substr(line, at + 2)
				inside = !inside
			}
			return text
		}
		FNR == 1 { inside = 0 }
		{ text = prose($0, 0, "") }
		text ~ /(^|[^A-Za-z])(Who|Whom|Whoever|What|Whatever)([^A-Za-z]|$)/ ||
		text ~ /(\/\*|\|) (who|whom|whoever|what|whatever) / {
			print FILENAME ":" FNR ": a sentence begins with a pronoun: " $0
		}
	'
}

number=0 status=0
report() {
	number=$((number + 1))
	found=$("$1")
	if [ -z "$found" ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		echo "$found" | sed 's/^/# /'
		status=1
	fi
}

echo 1..13
report check_arrows "includes point down"
report check_lines "lines have at most 100 columns"
report check_files "files have at most 600 lines, tests 720, the simulator 470"
report check_functions "functions have at most 70 lines"
report check_frames "the frames of functions take no larger share"
report check_single "no more short functions have one caller"
report check_makefile "every source is in the makefile"
report check_words "nothing is left for later"
report check_not "each refutation can fail"
report check_comments "headers explain their prototypes"
report check_prototypes "each prototype has its own comment"
report check_pronouns "no sentence begins with a pronoun"
report check_writers "parts of a state are written by their own files"
exit $status
