/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym_x86_64.S - dlsym, dlvsym and dlopen in front of libc's.
 *
 * glibc reads off the return address who is asking, to find where RTLD_NEXT
 * begins.  So whatever we do not answer ourselves goes on by a jump, with the
 * caller's return address on top of the stack; a call from C would make every
 * such look-up begin behind this library.
 */

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.text

/* name: the exported symbol; real: libc's, NULL at first; decide: doors.c */
.macro DOOR name, real, decide, last
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	_CET_ENDBR
	movq	\real(%rip), %rax
	testq	%rax, %rax
	jz	.Lfind_\name
.Lfound_\name:
	testq	%rsi, %rsi		/* no name: libc's to deal with */
	jz	.Lpass_\name
	cmpb	$'c', (%rsi)
	jne	.Lpass_\name
	cmpb	$'u', 1(%rsi)
	jne	.Lpass_\name
	movq	(%rsp), %\last		/* who is asking */
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	\decide
	testq	%rax, %rax
	movq	%rdx, %rcx
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jz	.Lpass_\name
	movq	%rcx, %rax
	ret
.Lpass_\name:
	jmp	*\real(%rip)
.Lfind_\name:
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	real_find_libc
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	cmpq	$0, \real(%rip)
	jne	.Lfound_\name
	xorl	%eax, %eax		/* a libc without it: nothing can be found */
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	DOOR	dlsym, real_dlsym, doors_dlsym, rdx
	DOOR	dlvsym, real_dlvsym, doors_dlvsym, rcx

/*
 * dlopen looks at its caller too, for the search path and the namespace: it is
 * always a jump.  The mask leaves the flags as they are unless it was asked to
 * take RTLD_DEEPBIND out of them.
 */
	.globl	dlopen
	.type	dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	_CET_ENDBR
	cmpq	$0, real_dlopen(%rip)
	je	.Lfind_dlopen
.Lfound_dlopen:
	andl	real_dlopen_mask(%rip), %esi
	jmp	*real_dlopen(%rip)
.Lfind_dlopen:
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	real_find_dlopen
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	cmpq	$0, real_dlopen(%rip)
	jne	.Lfound_dlopen
	xorl	%eax, %eax		/* a libc without it: nothing can be opened */
	ret
	.cfi_endproc
	.size	dlopen, . - dlopen

	.section .note.GNU-stack, "", @progbits
