#!/bin/sh
# The protocol logic and the server import no clock, file, socket, thread or randomness: that is
# what lets a whole cell run on virtual time from a seed. Each archive may import what the archives
# below it define, and what tests/purity.allow lists. No name is defined twice, so that all of them
# fit into one program. Runs in the build directory.
set -u

srcdir=${srcdir:-$(dirname "$0")/..}
allow=$srcdir/tests/purity.allow

# Archives and those that each may call: the include arrows once more.
below='
libbase.a
libwire.a libbase.a
libpaxos.a libwire.a libbase.a
libtree.a libwire.a libbase.a
libmaster.a libtree.a libwire.a libbase.a
libreplica.a libmaster.a libtree.a libpaxos.a libwire.a libbase.a
libclient.a libwire.a libbase.a
libmount.a libclient.a libwire.a libbase.a
libcopy.a libwire.a libbase.a
libserver.a libcopy.a libreplica.a libmaster.a libtree.a libpaxos.a libwire.a libbase.a
'

# foreign ARCHIVE BELOW...: "MEMBER SYMBOL" for everything that comes from elsewhere. Symbols of
# sanitizers come and go with the build.
foreign() {
	archive=$1
	nm -A -g --defined-only "$@" > "$work/defined" || return 1
	nm -A -u "$archive" > "$work/wanted" || return 1
	awk '
		{ symbol = $NF }
		symbol ~ /^__(asan|ubsan|tsan|sanitizer|gcov|llvm)_/ { next }
		FILENAME == ARGV[1] { defined[symbol] = 1; next }
		!(symbol in defined) { split($1, part, ":"); print part[2], symbol }
	' "$work/defined" "$work/wanted" | sort -u
}

# forbidden ARCHIVE: of the lines "MEMBER SYMBOL" read, those that the list does not allow.
forbidden() {
	awk -v archive="$1" '
		function fits(pattern, name) {
			if (pattern ~ /\*$/)
				return index(name, substr(pattern, 1, length(pattern) - 1)) == 1
			return pattern == name
		}
		FILENAME == ARGV[1] {
			if ($0 !~ /^(#|$)/ && fits($1, archive))
				for (i = 3; i <= NF; i++) {
					member[++n] = $2
					symbol[n] = $i
				}
			next
		}
		{
			for (i = 1; i <= n; i++)
				if (fits(member[i], $1) && fits(symbol[i], $2))
					next
			print
		}
	' "$allow" -
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# twice: names that two archives define.
twice() {
	nm -A -g --defined-only lib*.a | awk '
		{ split($1, part, ":") }
		$NF in home && home[$NF] != part[1] { print $NF ": " home[$NF] ", " part[1] }
		{ home[$NF] = part[1] }
	'
}

number=0 status=0
echo "1..$(($(echo "$below" | grep -c .) + 2))"
while read -r archive others; do
	[ -n "$archive" ] || continue
	number=$((number + 1))
	# shellcheck disable=SC2086 # the others are words
	if foreign "$archive" $others > "$work/foreign" && [ -s "$work/wanted" ] &&
	    forbidden "$archive" < "$work/foreign" > "$work/bad" && [ ! -s "$work/bad" ]; then
		echo "ok $number - $archive"
	else
		echo "not ok $number - $archive"
		sed 's/^/# imports: /' "$work/bad"
		status=1
	fi
	: > "$work/bad"
done <<END
$below
END
twice > "$work/bad"
if [ ! -s "$work/bad" ]; then
	echo "ok $((number + 1)) - no name is defined twice"
else
	echo "not ok $((number + 1)) - no name is defined twice"
	sed 's/^/# /' "$work/bad"
	status=1
fi

# Reading /proc/PID/stat, and others, waits for a process that may wait for the mount. The mount
# reads a process's status, and what is in its fdinfo.
grep -ho 'proc_file_[a-z]*([^)]*\|"/proc/[^"]*"' "$srcdir"/fs/*.c "$srcdir"/fs/*/*.c |
	grep -v -e '^proc_file_read([a-z]*, "status", ' -e '^proc_file_descriptor(' \
	-e '^"/proc/%ld/fdinfo"$' > "$work/bad"
if [ ! -s "$work/bad" ]; then
	echo "ok $((number + 2)) - the mount waits for none of its callers"
else
	echo "not ok $((number + 2)) - the mount waits for none of its callers"
	sed 's/^/# reads: /' "$work/bad"
	status=1
fi
exit $status
