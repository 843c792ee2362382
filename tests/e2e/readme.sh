#!/bin/bash
# The README's first screen, as printed: each line behind a prompt is run by one shell, and what it
# prints is what the README says, but for the signature.
. "$(dirname "$0")/lib.sh"

readme=$(dirname "$script")/../../README
root=$work/root

# A root directory like ours, but for the places where root's cells lie and are mounted.
make_root() {
	local entry
	mkdir "$root"
	for entry in /*; do
		if [ -L "$entry" ]; then
			cp -a "$entry" "$root"
		elif [ -d "$entry" ] && [ "$entry" != /ls ]; then
			mkdir "$root$entry" && mount --rbind "$entry" "$root$entry" || return 1
		fi
	done
	mkdir -p "$root/ls" "$work/lib/upper" "$work/lib/work"
	mount -t overlay lib "$root/var/lib" \
		-o "lowerdir=/var/lib,upperdir=$work/lib/upper,workdir=$work/lib/work"
}
[ "$(stat -f -c %T "$work")" != overlayfs ] || skip_all "no overlay upon an overlay"
make_root || skip_all "cannot make a root directory"

# The lines behind the first prompt, up to the first that is neither command nor output.
awk '/^    # / { on = 1 } on && !/^    / { exit } on { print substr($0, 5) }' "$readme" \
	> "$work/printed"
sed -n 's/^# //p' "$work/printed" > "$work/commands"

# The shell's prompt is what stands before each command in the README.
transcript() {
	local line
	while IFS= read -r line; do
		printf '# %s\n' "$line"
		eval "$line"
	done < "$work/commands"
}
plain() { sed -E 's/[A-Za-z0-9_-]{86}/SIGNATURE/' "$1"; }

case_first_screen() {
	[ "$(wc -l < "$work/commands")" -gt 5 ]
	export build work
	export -f transcript
	limit 60 chroot "$root" bash -c '
		PATH=$build/ctl:$PATH
		lsctl up > "$work/up" && transcript > "$work/got" 2>&1
		cd / && lsctl down'
	is "$(tail -n 1 "$work/up")" /ls/local
	diff <(plain "$work/printed") <(plain "$work/got")
}

run_cases
