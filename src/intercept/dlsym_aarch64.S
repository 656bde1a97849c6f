/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym_aarch64.S - dlsym, dlvsym and dlopen in front of libc's.
 *
 * glibc reads off the return address who is asking, to find where RTLD_NEXT
 * begins.  So whatever we do not answer ourselves goes on by a jump, with the
 * caller's return address still in x30; a call from C would make every such
 * look-up begin behind this library.
 */

	.text

/* name: the exported symbol; real: libc's, NULL at first; decide: doors.c */
.macro DOOR name, real, decide, last
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	cbz	x16, .Lfind_\name
.Lfound_\name:
	cbz	x1, .Lpass_\name	/* no name: libc's to deal with */
	ldrb	w9, [x1]
	cmp	w9, #'c'
	b.ne	.Lpass_\name
	ldrb	w9, [x1, #1]
	cmp	w9, #'u'
	b.ne	.Lpass_\name
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	stp	x0, x1, [sp, #16]
	stp	x2, x16, [sp, #32]
	mov	\last, x30		/* who is asking */
	mov	x29, sp
	bl	\decide
	mov	x9, x0
	mov	x10, x1
	ldp	x2, x16, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	cbz	x9, .Lpass_\name
	mov	x0, x10
	ret
.Lpass_\name:
	br	x16
.Lfind_\name:
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x29, sp
	bl	real_find_libc
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	cbnz	x16, .Lfound_\name
	mov	x0, xzr			/* a libc without it: nothing can be found */
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	DOOR	dlsym, real_dlsym, doors_dlsym, x2
	DOOR	dlvsym, real_dlvsym, doors_dlvsym, x3

/*
 * dlopen looks at its caller too, for the search path and the namespace: it is
 * always a jump.  The mask leaves the flags as they are unless it was asked to
 * take RTLD_DEEPBIND out of them.
 */
	.globl	dlopen
	.type	dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x16, real_dlopen
	ldr	x16, [x16, :lo12:real_dlopen]
	cbz	x16, .Lfind_dlopen
.Lfound_dlopen:
	adrp	x17, real_dlopen_mask
	ldr	w17, [x17, :lo12:real_dlopen_mask]
	and	w1, w1, w17
	br	x16
.Lfind_dlopen:
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp	x0, x1, [sp, #16]
	mov	x29, sp
	bl	real_find_dlopen
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	adrp	x16, real_dlopen
	ldr	x16, [x16, :lo12:real_dlopen]
	cbnz	x16, .Lfound_dlopen
	mov	x0, xzr			/* a libc without it: nothing can be opened */
	ret
	.cfi_endproc
	.size	dlopen, . - dlopen

	.section .note.GNU-stack, "", %progbits
