# SPDX-License-Identifier: Apache-2.0
#
# switch_stubs.awk - driver.tbl -> switch_stubs.S: for every driver function an
# exported stub of one instruction, a jump to where switch_target points.
# x86-64 only.  cuGetProcAddress is left to switch_preload.c.

BEGIN {
	FS = "|"
	count = 0
	print "\t.text"
}

/^cu/ {
	name = $1
	gsub(/[ \t]/, "", name)
	if (name ~ /^cuGetProcAddress/)
		next
	names[count] = name
	printf "\t.globl %s\n\t.type %s, @function\n%s:\nstub_%d:\n", name, name, name, count
	printf "\tjmpq *switch_target+%d(%%rip)\n", 8 * count
	count++
}

END {
	print "\t.section .rodata\n\t.globl switch_names\n\t.hidden switch_names\nswitch_names:"
	for (i = 0; i < count; i++)
		printf "\t.asciz \"%s\"\n\t.balign 64\n", names[i]
	print "\t.globl switch_count\n\t.hidden switch_count\nswitch_count:"
	printf "\t.quad %d\n", count
	print "\t.section .data.rel.ro, \"aw\"\n\t.globl switch_stubs\n\t.hidden switch_stubs"
	print "switch_stubs:"
	for (i = 0; i < count; i++)
		printf "\t.quad stub_%d\n", i
	print "\t.bss\n\t.balign 64\n\t.globl switch_target\n\t.hidden switch_target"
	print "switch_target:"
	printf "\t.zero %d\n", 8 * count
	print "\t.section .note.GNU-stack, \"\", @progbits"
}
