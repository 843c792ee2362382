#!/bin/sh
# make fuzz SECONDS=60 [TARGET=wire]: each target under libFuzzer, with AddressSanitizer and UBSan,
# from the corpus in the tree; new inputs are kept in the build directory (fuzz/corpus). An input
# that ends a target stays in fuzz/, and is named. Needs clang.
set -u
source=${srcdir:?} seconds=${SECONDS_EACH:-60} status=0
flags="-std=gnu17 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
flags="$flags $(pkg-config --cflags fuse3)"
libraries="-lsodium -lxxhash -linih -luv -lcmocka $(pkg-config --libs fuse3)"

mkdir -p fuzz/objects || exit 1
rm -f fuzz/objects/*

# compile SOURCE...: into fuzz/objects.
compile() {
	printf '%s\n' "$@" | xargs -P "$(nproc)" -I FILE sh -c '
		object=fuzz/objects/$(printf %s "FILE" | tr / _).o
		exec clang '"$flags"' -fsanitize=fuzzer-no-link -D_GNU_SOURCE -I. -I"'"$source"'" \
			-c "'"$source"'/FILE" -o "$object"'
}

# shellcheck disable=SC2046 # words
compile $(cd "$source" && ls cell/base/*.c cell/wire/*.c cell/tree/*.c cell/master/*.c \
	cell/paxos/*.c cell/replica/*.c cell/config/*.c cell/sys/*.c fs/mount/*.c fs/fuse/*.c \
	tests/unit/mount_bench.c tests/unit/tree_fixture.c tests/unit/row_store.c \
	tests/unit/wire_print.c) || exit 1
ar rcs fuzz/libfuzz.a fuzz/objects/*.o || exit 1

mkdir -p fuzz/corpus/tree fuzz/corpus/replica fuzz/corpus/fuse
# shellcheck disable=SC2086 # words
clang $flags -D_GNU_SOURCE -I. -I"$source" "$source/tests/fuzz/seeds.c" fuzz/libfuzz.a \
	$libraries -o fuzz/seeds && fuzz/seeds fuzz/corpus || exit 1

for file in "$source"/tests/fuzz/fuzz_*.c; do
	name=$(basename "$file" .c)
	name=${name#fuzz_}
	case ${TARGET:-$name} in $name) ;; *) continue ;; esac
	mkdir -p "fuzz/corpus/$name"
	# shellcheck disable=SC2086 # words
	clang $flags -fsanitize=fuzzer -D_GNU_SOURCE -I. -I"$source" "$file" fuzz/libfuzz.a \
		$libraries -o "fuzz/fuzz_$name" || exit 1
	if "fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
		-rss_limit_mb=2048 -artifact_prefix="fuzz/$name-" "fuzz/corpus/$name" \
		"$source/tests/fuzz/corpus/$name" > "fuzz/$name.log" 2>&1; then
		echo "fuzz $name: $(grep -c '^#.*NEW' "fuzz/$name.log") new inputs," \
			"$(sed -n 's/^#\([0-9]*\).*DONE.*/\1/p' "fuzz/$name.log") runs, no fault"
	else
		echo "fuzz $name: a fault, see fuzz/$name.log"
		tail -n 3 "fuzz/$name.log"
		status=1
	fi
done
exit $status
