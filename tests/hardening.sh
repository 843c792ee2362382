#!/bin/sh
# The hardening that configure asks for is in the programs: position independent, relocations bound
# at start and read only, nothing both writable and executable, stack protector, the C library's
# checked functions, and no library from elsewhere. A flag lost in the build shows here.
set -u

number=0 status=0

# check NAME COMMAND...
check() {
	name=$1
	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		status=1
	fi
}

is_pie() { readelf -hW "$1" | grep -q 'Type: *DYN'; }
binds_now() { readelf -dW "$1" | grep -qE 'BIND_NOW|FLAGS_1.*NOW'; }
is_relro() { readelf -lW "$1" | grep -q GNU_RELRO; }
stack_is_data() { readelf -lW "$1" | grep GNU_STACK | grep -qv 'RWE'; }
guards_stack() { readelf -sW --dyn-syms "$1" | grep -q __stack_chk_fail; }
# Where configure asks for them: without optimization, and with sanitizers, there are none.
checks_calls() {
	! grep -q '^HARDEN_CFLAGS.*-D_FORTIFY_SOURCE' Makefile ||
		readelf -sW --dyn-syms "$1" | grep -q '__[a-z]*printf_chk'
}
code_is_read_only() {
	! readelf -lW "$1" | grep -q 'LOAD.*RWE' && ! readelf -dW "$1" | grep -q TEXTREL
}
has_no_path() { ! readelf -dW "$1" | grep -qE 'RPATH|RUNPATH'; }

echo 1..24
for program in fs/lsfs cell/lscell ctl/lsctl; do
	check "$program: position independent" is_pie "$program"
	check "$program: bound at start" binds_now "$program"
	check "$program: relocations read only" is_relro "$program"
	check "$program: stack not executable" stack_is_data "$program"
	check "$program: stack protector" guards_stack "$program"
	check "$program: calls are checked" checks_calls "$program"
	check "$program: code is read only" code_is_read_only "$program"
	check "$program: libraries of the system only" has_no_path "$program"
done
exit $status
