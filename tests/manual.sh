#!/bin/sh
# The man pages have every option of the programs, every command of lsctl and every attribute, and
# the README no other figures than the benchmarks. Runs in the build directory.
set -u
export LC_ALL=C

srcdir=${srcdir:-$(dirname "$0")/..}
number=0 status=0
echo 1..12

# has PAGE WORD...
has() {
	page=$1
	shift
	number=$((number + 1))
	missing=
	for word in "$@"; do
		sed 's/\\//g' "$srcdir/docs/$page" | grep -qF -e "$word" || missing="$missing $word"
	done
	if [ -z "$missing" ] && [ $# -gt 0 ]; then
		echo "ok $number - $page"
	else
		echo "not ok $number - $page lacks:$missing"
		status=1
	fi
}

# The keys of lsctl's JSON: those that its sources have, with those of .cell/status.
json_keys() {
	{
		sed -nE 's/.*json_object_set(_new)?\([^"]*"([a-z_]+)".*/\2/p' \
			"$srcdir"/cell/view/*.c "$srcdir"/ctl/*.c "$srcdir"/ctl/commands/*.c
		sed -n '/^virtual_status_text/,/^}/p' "$srcdir/fs/mount/virtual.c" |
			grep -oE '(["n]|, ")[a-z_]+(: |")' | sed -E 's/^(, |n)?"?//; s/[:"] ?$//'
	} | grep -vE '^(yes|)$' | sort -u
}

# Those that the page has: the bold words of its section JSON that are no commands.
documented_keys() {
	sed -n '/^\.SH JSON/,/^\.SH [^J]/p' "$srcdir/docs/lsctl.1" |
		grep -vE '^\.BR? (".*|locks|top|get|(session|replica|principal|acl) [ls].*)$' |
		sed -nE '/^\.BR? /{s/^\.BR? //; s/"[^"]*"/\n/g; s/[ ,.;:)]+/\n/g; p}' |
		grep -xE '[a-z_]+' | sort -u
}

options() { "$1" --help | grep -oE -e '--[a-z-]+' | sort -u; }

# shellcheck disable=SC2046 # words
{
	has lsfs.8 $(options fs/lsfs)
	has lsfs.8 $(fs/lsfs --help | sed -nE 's/^      ([a-z_]+=?).*/\1/p')
	has lsfs.8 $(grep -oE '"user\.ls\.[a-z_.]+"' "$srcdir/fs/mount/xattr.c" | tr -d '"')
	has lsfs.7 $(grep -oE '"user\.ls\.[a-z_.]+"' "$srcdir/fs/mount/xattr.c" | tr -d '"')
	has lsfs.7 $(grep -oE '"[a-z]+", MOUNT_INO' "$srcdir/fs/mount/virtual.c" |
		sed -E 's/"([a-z]+)".*/.cell\/\1/')
	has lscell.8 $(options cell/lscell)
	has lsctl.1 $(options ctl/lsctl)
	has lsctl.1 $(json_keys)
	has lsctl.1 $(ctl/lsctl --help | sed -nE 's/^  ([a-z]+) .*/\1/p')
}
number=$((number + 1))
if [ "$(json_keys)" = "$(documented_keys)" ]; then
	echo "ok $number - lsctl.1 has no other key of JSON"
else
	documented_keys | grep -vxF -e "$(json_keys)" | sed 's/^/# /'
	echo "not ok $number - lsctl.1 has these keys of JSON, which nothing prints"
	status=1
fi

# docs/messages.md has each warning of lscell and lsfs, by the longest part of it without a number
# or a name, and each condition that lsctl finds, with its severity.
number=$((number + 1))
if python3 - "$srcdir" <<- 'P'; then
	import glob, re, sys
	root = sys.argv[1]
	page = open(root + "/docs/messages.md").read()
	missing = []
	for path in sorted(glob.glob(root + "/cell/**/*.c", recursive=True) +
	                   glob.glob(root + "/fs/**/*.c", recursive=True)):
	    for call in re.findall(r"\b(?:log_warn|NOTICE)\((.*?)\);", open(path).read(), re.S):
	        for text in re.findall(r'(?:"(?:[^"\\]|\\.)*"(?:\s|PRI\w+)*)+', call):
	            text = re.sub(r'"\s*PRI\w+\s*"?', "d", text)
	            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
	            part = max(re.split(r"%[-.*0-9]*[lz]*[a-zA-Z]", text), key=len).strip(" (:,;")
	            words = re.split(r"[:;(]", part)
	            if len(part) >= 8 and max(words, key=len).strip() not in page:
	                missing.append(path + ": " + part)
	for name, severity in re.findall(r"\bF\((\w+), (DOWN|DEGRADED|WARNING),",
	                                 open(root + "/cell/view/findings.h").read()):
	    if "| `%s` | %s |" % (name, severity.lower()) not in page:
	        missing.append("lsctl doctor: " + name)
	print("\n".join("# " + m for m in missing))
	sys.exit(len(missing) > 0)
P
	echo "ok $number - messages.md"
else
	echo "not ok $number - messages.md lacks these"
	status=1
fi

# docs/performance.md is written from the results of make bench.
number=$((number + 1))
figures=$(sed -n '/^Beside ZooKeeper/,/^Without/p' "$srcdir/README" | grep '^    .*[0-9]' |
	sed -E 's/ by [0-9]+//' | grep -oE '[0-9][0-9.,]*( s| MB)?')
unknown=$(echo "$figures" | while read -r figure; do
	sed -n '/^<!-- bench/,/^<!-- end/p' "$srcdir/docs/performance.md" |
		grep -qF -e "| $figure " -e "| $figure;" || echo "$figure"
done)
if [ -n "$figures" ] && [ -z "$unknown" ]; then
	echo "ok $number - the README's figures are those of performance.md"
else
	# shellcheck disable=SC2086 # words
	echo "not ok $number - performance.md has not:" $unknown
	status=1
fi
exit $status
