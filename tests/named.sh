#!/bin/sh
# The pages in docs/ name things that are there: each test that a page names (`FILE:CASE`
# is a case of tests/*/FILE (.c or .sh), `mutant:NAME` a planted bug, `FOLDER:NAME` a transcript);
# each function, field or file. And the file map of docs/architecture.md names every source.
set -u
export LC_ALL=C

cd "${srcdir:-$(dirname "$0")/..}" || exit 1

# exists FILE CASE
exists() {
	case $1 in
	mutant) [ -f "tests/sim/mutants/$2.patch" ] ;;
	*.sh) grep -q "^case_$2()" "tests/e2e/$1" ;;
	*) [ -f "tests/transcripts/$1/$2.txt" ] || grep -qwE "(test_)?$2" tests/*/"$1.c" ;;
	esac
}

# Words of the sources, one a line: a name that a page gives to something must be among them.
words=$(mktemp) || exit 1
trap 'rm -f "$words"' EXIT
find cell fs ctl tests -name '*.[ch]' -o -name '*.sh' -o -name '*.py' |
	xargs grep -ohE '[A-Za-z_][A-Za-z_0-9]*' Makefile.am |
	sed -E 'p; s/^(test|case)_//' | sort -u > "$words"

# What a page names and nothing has: identifiers with an underscore, and paths of sources.
unknown() {
	grep -oE '`[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9](\(\))?`' "$1" | tr -d '`()' | sort -u |
		grep -vxF -f "$words"
	grep -oE '`(cell|fs|ctl|tests)/[a-z_0-9/]+\.(c|h|sh|py)`' "$1" | tr -d '`' | sort -u |
		while read -r path; do [ -e "$path" ] || echo "$path"; done
	grep -oE '`[a-z_]+\.txt`' "$1" | tr -d '`' | sort -u | while read -r name; do
		ls tests/transcripts/*/"$name" > /dev/null || echo "$name"
	done
}

# Sources that the file map does not name; a name may end with a star.
unmapped() {
	set -f
	sed -n '/^## The file map/,/^## Several/p' docs/architecture.md | grep -oE '`[^`]*`' |
		tr -d '`' | tr ' ' '\n' | sed 's/\*$/.*/' | sort -u > "$words.map"
	find cell fs ctl -name '*.c' ! -path 'ctl/commands/*' | sed 's|.*/||; s|\.c$||' |
		grep -vxE -f "$words.map"
	rm -f "$words.map"
	set +f
}

named=$(grep -ohE '`[a-z_0-9.]+:[a-zA-Z_0-9-]+`' docs/faults.md docs/semantics.md |
	tr -d '`' | sort -u)
pages=$(ls docs/*.md)
n=0
echo "1..$(echo "$named" "$pages" the_map | tr ' ' '\n' | wc -l)"
for name in $named; do
	n=$((n + 1))
	if exists "${name%%:*}" "${name#*:}" 2> /dev/null; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name: named in docs/, and no test has this name"
	fi
done
for page in $pages; do
	n=$((n + 1))
	found=$(unknown "$page")
	if [ -z "$found" ]; then
		echo "ok $n - $page names what is there"
	else
		echo "not ok $n - $page names what is not there:" $found
	fi
done
found=$(unmapped)
if [ -z "$found" ]; then
	echo "ok $((n + 1)) - the file map names every source"
else
	echo "not ok $((n + 1)) - the file map does not name" $found
fi
