#!/bin/sh
# Is the simulator strong enough? Each patch in tests/sim/mutants plants one realistic mistake; a
# simulator built with it has to fail within SEEDS seeds. Prints a line for each: its name, how many
# seeds it took, and the invariant that saw it. Fails when one is not found or does not apply.
#
# Called by `make mutants [MUTANT=name] [SEEDS=n] [FROM=base]` in the build directory, with what the
# compiler and the linker need in the environment: CC CFLAGS LDFLAGS OBJECTS ARCHIVES. The patched
# files are compiled from copies, and linked before the archives that hold the good ones.
set -u
export LC_ALL=C

source=$(cd "${srcdir:-.}" && pwd) || exit 2
patches=$source/tests/sim/mutants
seeds=${SEEDS:-8000}
first=${FROM:-1}
work=$(mktemp -d "${TMPDIR:-/tmp}/mutants.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

say() {
	printf '%-36s %8s  %s\n' "$1" "$2" "$3"
}

# Copies the files that the patch names, and patches the copies.
plant() {
	files=$(sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$1" | tr '\n' ' ')
	[ -n "$files" ] || return 1
	for file in $files; do
		mkdir -p "$2/$(dirname "$file")" && cp "$source/$file" "$2/$file" || return 1
	done
	patch -s -p1 -N -F1 -d "$2" < "$1" > "$2/log" 2>&1
}

# Compiles every planted file; prints the objects of the program: theirs, and all others of the
# simulator.
build() {
	mine= others=
	for file in $files; do
		object=$1/${file%.c}.o
		# shellcheck disable=SC2086
		$CC $CFLAGS -w -c -o "$object" "$1/$file" >> "$1/log" 2>&1 || return 1
		mine="$mine $object"
	done
	for object in $OBJECTS; do
		case " $files " in
		*" ${object%.o}.c "*) ;;
		*) others="$others $object" ;;
		esac
	done
	# shellcheck disable=SC2086
	$CC $CFLAGS $LDFLAGS -o "$1/sim" $mine $others $ARCHIVES >> "$1/log" 2>&1
}

# Runs the mutant; true when it fails in a seed in which the good simulator does not.
hunt() {
	from=$first
	while [ "$from" -lt $((first + seeds)) ] && ! "$1/sim" --from "$from" \
	    --seeds $((first + seeds - from)) > "$1/summary" 2> "$1/said"; do
		seed=$(sed -n 's/.*--seed \([0-9]*\).*/\1/p' "$1/said" | head -n 1)
		[ -n "$seed" ] || return 1
		if tests/sim/sim --seed "$seed" > /dev/null 2>&1; then
			invariant=$(grep -v 'rerun:\|an hour and core' "$1/said" | tail -n 1 |
			    sed 's/^sim: at [0-9.]* s: //; s|^.*/\(.*: broken invariant\)|\1|')
			return 0
		fi
		echo "# seed $seed fails without any mistake, too"
		from=$((seed + 1))
	done
	return 1
}

failed=0
say mutant seeds "what saw it"
for patch in "$patches"/*.patch; do
	name=$(basename "$patch" .patch)
	case " ${MUTANT:-$name} " in
	*" $name "*) ;;
	*) continue ;;
	esac
	tried=$name
	mkdir "$work/$name"
	if ! plant "$patch" "$work/$name"; then
		say "$name" - "THE PATCH DOES NOT APPLY"
		sed 's/^/# /' "$work/$name/log"
		failed=1
	elif ! build "$work/$name"; then
		say "$name" - "IT DOES NOT COMPILE"
		sed 's/^/# /' "$work/$name/log"
		failed=1
	elif hunt "$work/$name"; then
		say "$name" $((seed - first + 1)) "$invariant"
	else
		say "$name" ">$seeds" "NOT FOUND"
		failed=1
	fi
	rm -rf "${work:?}/$name"
done
if [ -z "${tried:-}" ]; then
	echo "there is no mutant ${MUTANT:-}" >&2
	exit 2
fi
exit $failed
