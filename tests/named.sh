#!/bin/sh
# Each test that docs/faults.md names exists: `FILE:CASE` is a case of tests/*/FILE (.c or .sh),
# `mutant:NAME` a planted bug.
set -u
export LC_ALL=C

cd "${srcdir:-$(dirname "$0")/..}" || exit 1

# exists FILE CASE
exists() {
	case $1 in
	mutant) [ -f "tests/sim/mutants/$2.patch" ] ;;
	*.sh) grep -q "^case_$2()" "tests/e2e/$1" ;;
	*) grep -qwE "(test_)?$2" tests/*/"$1.c" ;;
	esac
}

named=$(grep -oE '`[a-z_0-9.]+:[a-zA-Z_0-9-]+`' docs/faults.md | tr -d '`' | sort -u)
n=0
echo "1..$(echo "$named" | wc -l)"
for name in $named; do
	n=$((n + 1))
	if exists "${name%%:*}" "${name#*:}" 2> /dev/null; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name: named in docs/faults.md, and no test has this name"
	fi
done
