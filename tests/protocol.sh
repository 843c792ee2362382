#!/bin/sh
# docs/protocol.md describes the schema as it is: a row for each message, operation, result and
# part, with its code and all its fields in order, and no row for anything else. Rows of the
# document begin like this (messages and operations with their code, results and parts without):
#
#   | 7 | `granted` | rc u8, node u64, ...
#   | `ballot` | round u64, replica u8
#
# `tests/protocol.sh print` prints what the schema says, to begin a row with.
set -u
export LC_ALL=C

cd "${srcdir:-$(dirname "$0")/..}" || exit 1
schema=cell/wire/schema.h
document=docs/protocol.md

# The beginnings of all rows.
rows() {
	awk '
		# A macro is one line here: without comments and continuations.
		{
			gsub(/\/\*[^*]*\*\//, "")
			text = text $0
			if (sub(/\\$/, "", text))
				next
			line = text
			text = ""
		}
		line ~ /^#define WIRE_(msg|op|result)?_?[a-z_]+\(F\)/ { fields(line) }
		line ~ /^#define WIRE_(MESSAGES|OPS|RESULTS|PARTS|ELEMENTS)\(/ { codes(line) }

		function fields(s, name, list, part) {
			name = s
			sub(/^#define WIRE_/, "", name)
			sub(/\(F\).*/, "", name)
			sub(/^[^)]*\)/, "", s)
			list = ""
			while (match(s, /F\([a-z0-9]+, [a-z_0-9]+, [^)]*\)/)) {
				split(substr(s, RSTART + 2, RLENGTH - 3), part, /, */)
				s = substr(s, RSTART + RLENGTH)
				list = list (list == "" ? "" : ", ") part[2] " " part[1] \
				    (part[1] == "list" ? " of " part[3] : "")
			}
			shape[name] = list == "" ? "-" : list
		}

		function row(name, kind, code) {
			if (code != "")
				code = code " | "
			print "| " code "`" name "` | " shape[kind name]
		}

		function codes(s, what, item, part) {
			what = s
			sub(/^#define WIRE_/, "", what)
			sub(/\(.*/, "", what)
			sub(/^[^)]*\)/, "", s)
			while (match(s, /[A-Z]\([^)]*\)/)) {
				item = substr(s, RSTART + 2, RLENGTH - 3)
				s = substr(s, RSTART + RLENGTH)
				split(item, part, /, */)
				if (what == "MESSAGES")
					row(part[2], "msg_", part[1])
				else if (what == "OPS")
					row(part[2], "op_", part[1])
				else
					row(part[1], what == "RESULTS" ? "result_" : "", "")
			}
		}
	' "$schema"
}

if [ "${1:-}" = print ]; then
	rows
	exit
fi

missing=$(rows | while read -r row; do
	grep -qF -e "$row |" "$document" || echo "# not in $document: $row"
done)
wanted=$(rows | wc -l)
there=$(grep -cE '^\| ([0-9]+ \| )?`[a-z_]+` \| ' "$document")

echo 1..3
status=0
if [ "$wanted" -ge 50 ]; then
	echo "ok 1 - the schema is read"
else
	echo "not ok 1 - the schema is read: only $wanted rows"
	status=1
fi
if [ -z "$missing" ]; then
	echo "ok 2 - the document has a row for everything"
else
	echo "not ok 2 - the document has a row for everything"
	echo "$missing"
	status=1
fi
if [ "$wanted" -eq "$there" ]; then
	echo "ok 3 - and for nothing else"
else
	echo "not ok 3 - and for nothing else: $there rows, $wanted are in the schema"
	status=1
fi
exit $status
