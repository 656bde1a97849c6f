/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_foreign.c - runs the program of its own name that was built for another
 * processor, in an emulator:
 *
 *	EMULATOR -L LIBRARIES -0 <name it was called by> PROGRAMS/<its name> ARGUMENTS
 *
 * The three words in capitals are given when it is compiled.  It must be linked
 * statically, as the emulator is: LD_PRELOAD and LD_LIBRARY_PATH mean the program
 * that is emulated, and a loader of this machine would follow them too.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { OWN_ARGUMENTS = 6, ARGUMENTS_MAX = 64 };

int main(int count, char **arguments)
{
	const char *own = (const char *)getauxval(AT_EXECFN);
	const char *slash = strrchr(own, '/');
	char program[PATH_MAX];
	const char *words[OWN_ARGUMENTS + ARGUMENTS_MAX] = {
		EMULATOR, "-L", LIBRARIES, "-0", own, program,
	};

	if (count < 1 || count > ARGUMENTS_MAX) {
		fprintf(stderr, "%s: at most %d arguments\n", own, ARGUMENTS_MAX - 1);
		return 2;
	}
	snprintf(program, sizeof(program), "%s/%s", PROGRAMS, slash ? slash + 1 : own);
	for (int i = 1; i < count; i++)
		words[OWN_ARGUMENTS + i - 1] = arguments[i];
	execv(EMULATOR, (char *const *)words);
	perror(EMULATOR);
	return 127;
}
