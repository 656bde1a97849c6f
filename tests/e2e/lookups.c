/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookups.c - asks for every function by every door and says what came back.
 *
 *	lookups LIST	lines "symbol base since variant", variant ptds, ptsz or -
 *	lookups		asks for one function where no driver was loaded, then where
 *			one was, but for its handle alone
 *
 * Standard output says nothing that an interposer may change: results, status,
 * whether there is an address, and whether it is the one dlsym gives.  Which
 * symbols an interposer answered for goes to $E2E_JOURNAL.
 */
#include "journal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef CUresult getproc4(const char *, void **, int, cuuint64_t);
typedef CUresult getproc5(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *driver;
static getproc4 *get4;
static getproc5 *get5;

static const char *compare(void *found, void *known)
{
	if (!found)
		return "null";
	return found == known ? "same" : "another";
}

static void ask(const char *base, int version, cuuint64_t flags, void *known)
{
	CUdriverProcAddressQueryResult status = 77;
	void *found4 = (void *)&status, *found5 = (void *)&status, *found = (void *)&status;
	CUresult result4 = 77, result5 = 77, result = 77;

	if (get4)
		result4 = get4(base, &found4, version, flags);
	if (get5)
		result5 = get5(base, &found5, version, flags, &status);
	if (get5)
		result = get5(base, &found, version, flags, NULL);
	printf("%s %d %d: %d %s, %d %s %d, %d %s\n", base, version, (int)flags, result4,
	       result4 ? "-" : compare(found4, known), result5,
	       result5 ? "-" : compare(found5, known), (int)status, result,
	       result ? "-" : compare(found, known));
}

static int is_of_preload(void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname &&
	       strstr(info.dli_fname, "libcustody-preload") != NULL;
}

static void ask_for_row(const char *symbol, const char *base, int since, const char *variant)
{
	void *known = dlsym(driver, symbol);
	void *versioned = dlvsym(driver, symbol, "GLIBC_2.2.5");
	cuuint64_t twin = variant[0] != '-' ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;

	printf("%s: %s %s\n", symbol, known ? "there" : "missing", compare(versioned, known));
	if (since > 0)
		ask(base, since, twin, known);
	if (known)
		journal_line("%s %s", is_of_preload(known) ? "wrapped" : "bare", symbol);
}

static void ask_for_oddities(void)
{
	ask("", 12000, 0, NULL);
	ask("", 0, 0, NULL);
	ask("cuNoSuchFunction", 12000, 0, NULL);
	ask("cuNoSuchFunction", -1, 0, NULL);
	ask("cuMemAlloc", -1, 0, dlsym(driver, "cuMemAlloc_v2"));
	ask("cuMemAlloc", 0, 0, NULL);
	ask("cuMemAlloc", 1999, 0, NULL);
	ask("cuMemAlloc", 2000, 0, dlsym(driver, "cuMemAlloc"));
	ask("cuMemAlloc", 3019, 0, dlsym(driver, "cuMemAlloc"));
	ask("cuMemAlloc", 3020, 0, dlsym(driver, "cuMemAlloc_v2"));
	ask("cuMemAlloc", 99999, 0, dlsym(driver, "cuMemAlloc_v2"));
	ask("cuMemAlloc_v2", 12000, 0, NULL);
	ask("cuMemAlloc", 12000, 1, dlsym(driver, "cuMemAlloc_v2"));
	ask("cuMemAlloc", 12000, 2, dlsym(driver, "cuMemAlloc_v2"));
	ask("cuMemAlloc", 12000, 3, NULL);
	ask("cuMemAlloc", 12000, 4, NULL);
	ask("cuMemAllocAsync", 11010, 0, NULL);
	ask("cuMemAllocAsync", 12000, 1, dlsym(driver, "cuMemAllocAsync"));
	ask("cuMemAllocAsync", 12000, 2, dlsym(driver, "cuMemAllocAsync_ptsz"));
	ask("cuMemcpyHtoD", 3020, 2, dlsym(driver, "cuMemcpyHtoD_v2_ptds"));
	ask("cuGetProcAddress", 11030, 0, dlsym(driver, "cuGetProcAddress"));
	ask("cuGetProcAddress", 12000, 0, dlsym(driver, "cuGetProcAddress_v2"));
	ask("cuCtxCreate", 13000, 0, dlsym(driver, "cuCtxCreate_v4"));
	ask("printf", 12000, 0, NULL);
}

#if defined(__x86_64__)
static const char first_version[] = "GLIBC_2.2.5";
#else
static const char first_version[] = "GLIBC_2.17";
#endif

/* A name of libc's that begins as the driver's do: looked at and let go on, with its version. */
static void ask_by_version(void *libc)
{
	void *known = dlsym(libc, "cuserid");

	printf("version: %s\n", compare(dlvsym(libc, "cuserid", first_version), known));
	printf("plain version: %s\n",
	       compare(dlvsym(libc, "strtol", first_version), dlsym(libc, "strtol")));
	printf("no version: %s\n", compare(dlvsym(libc, "cuserid", "NO_VERSION"), known));
	printf("default version: %s\n",
	       compare(dlvsym(RTLD_DEFAULT, "cuserid", first_version), known));
}

/* No byte may be read behind the end of a name, which may be the end of memory. */
static void ask_at_end_of_page(void)
{
	static const char *const names[] = { "", "c", "cu", "x" };
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE), i;
	char *pages =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *name;

	require(pages != MAP_FAILED && !mprotect(pages + bytes, bytes, PROT_NONE),
		"a page without a neighbour can be had");
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		name = strcpy(pages + bytes - strlen(names[i]) - 1, names[i]);
		printf("at the end '%s': %s\n", name, dlsym(driver, name) ? "there" : "missing");
	}
	munmap(pages, 2 * bytes);
}

static void ask_and_keep_errno(void)
{
	errno = 4711;
	dlsym(driver, "cuInit");
	dlsym(RTLD_DEFAULT, "strtol");
	dlvsym(driver, "cuInit", first_version);
	printf("errno: %d\n", errno);
}

/* Whoever is asked, the answer may not depend on who asks through whom. */
static void ask_dlsym(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	printf("libc: %s\n", dlsym(libc, "cuInit") ? "has a driver" : "has no driver");
	printf("default: %s\n", compare(dlsym(RTLD_DEFAULT, "strtol"), dlsym(libc, "strtol")));
	printf("next: %s\n", compare(dlsym(RTLD_NEXT, "strtol"), dlsym(libc, "strtol")));
	printf("next again: %s\n", compare(dlsym(RTLD_NEXT, "strtol"), dlsym(libc, "strtol")));
	printf("unknown: %s\n", dlsym(driver, "cuNoSuchFunction") ? "there" : "missing");
	printf("error: %s\n", dlerror() ? "told" : "not told");
	printf("no error: %s\n", dlerror() ? "told" : "not told");
	printf("empty: %s\n", dlsym(driver, "") ? "there" : "missing");
	ask_by_version(libc);
	ask_at_end_of_page();
	ask_and_keep_errno();
	dlerror();
}

static void ask_scopes(const char *when)
{
	void *self = dlopen(NULL, RTLD_NOW);

	printf("%s: default %s, next %s, next of a version %s, program %s\n", when,
	       dlsym(RTLD_DEFAULT, "cuInit") ? "there" : "missing",
	       dlsym(RTLD_NEXT, "cuInit") ? "there" : "missing",
	       dlvsym(RTLD_NEXT, "cuInit", "GLIBC_2.2.5") ? "there" : "missing",
	       dlsym(self, "cuInit") ? "there" : "missing");
	dlclose(self);
}

static int ask_without_driver(void)
{
	ask_scopes("without");
	require(dlopen("libcuda.so.1", RTLD_NOW) != NULL, "libcuda can be opened");
	ask_scopes("with its handle alone");
	require(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL, "for all too");
	ask_scopes("with it for all");
	return 0;
}

int main(int count, char **arguments)
{
	char symbol[128], base[128], variant[16];
	int since;
	FILE *list;

	if (count < 2)
		return ask_without_driver();
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	require(driver != NULL, "libcuda can be opened");
	get4 = (getproc4 *)dlsym(driver, "cuGetProcAddress");
	get5 = (getproc5 *)dlsym(driver, "cuGetProcAddress_v2");
	ask_dlsym();
	ask_for_oddities();
	list = fopen(arguments[1], "re");
	require(list != NULL, "the list can be read");
	while (fscanf(list, "%127s %127s %d %15s", symbol, base, &since, variant) == 4)
		ask_for_row(symbol, base, since, variant);
	fclose(list);
	return 0;
}
