/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pitfall.c - traps of the driver's interface, one by one:
 *
 *	pitfall CASE		walks into it and prints what it sees
 *	pitfall			prints the names of all cases
 *
 * Runs on the simulated driver and on a GPU; pitfalls.sh has the table of cases.
 */
#include "pitfall.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct pitfall pitfall;

static pthread_t letting_go;
static int line; /* to the other process */

void tell(const char *what, long long value)
{
	printf("%s: %lld\n", what, value);
	fflush(stdout);
}

void need_success(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "pitfall: %s: %d\n", what, (int)result);
	exit(91);
}

static void require(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "pitfall: not so: %s\n", what);
	exit(91);
}

void pitfall_start(void)
{
	void *flag;

	need(cuInit(0));
	need(cuDeviceGet(&pitfall.device, 0));
	need(cuDevicePrimaryCtxRetain(&pitfall.context, pitfall.device));
	need(cuCtxSetCurrent(pitfall.context));
	need(cuStreamCreate(&pitfall.stream, CU_STREAM_NON_BLOCKING));
	need(cuStreamCreate(&pitfall.other, CU_STREAM_NON_BLOCKING));
	need(cuMemHostAlloc(&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	pitfall.flag = flag;
	let_go();
}

CUdeviceptr new_block(size_t bytes)
{
	CUdeviceptr address;

	need(cuMemAlloc(&address, bytes));
	return address;
}

size_t used_bytes(void)
{
	size_t free_bytes, total_bytes;

	need(cuMemGetInfo(&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

/* ---------------------------------------------------------------- standing still */

void hold(CUstream stream)
{
	__atomic_store_n(pitfall.flag, 0, __ATOMIC_RELEASE);
	need(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)pitfall.flag, 1,
				 CU_STREAM_WAIT_VALUE_EQ));
}

void let_go(void)
{
	__atomic_store_n(pitfall.flag, 1, __ATOMIC_RELEASE);
}

int is_let_go(void)
{
	return (int)__atomic_load_n(pitfall.flag, __ATOMIC_ACQUIRE);
}

static void *let_go_later(void *argument)
{
	usleep(1000 * (unsigned)(uintptr_t)argument);
	let_go();
	return NULL;
}

void let_go_after(unsigned milliseconds)
{
	require(!pthread_create(&letting_go, NULL, let_go_later,
				(void *)(uintptr_t)milliseconds),
		"a thread starts");
}

void join_letting_go(void)
{
	pthread_join(letting_go, NULL);
}

int is_done(CUstream stream)
{
	return cuStreamQuery(stream) == CUDA_SUCCESS;
}

uint32_t read_word(CUdeviceptr address)
{
	uint32_t word = 0;

	need(cuMemcpyDtoH(&word, address, sizeof(word)));
	return word;
}

/* ---------------------------------------------------------------- memory to be described */

static CUmemLocation this_device(void)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pitfall.device };
}

CUmemAllocationProp handle_properties(CUmemAllocationHandleType type)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = type,
		.location = this_device(),
	};
}

CUmemPoolProps pool_properties(CUmemAllocationHandleType type)
{
	return (CUmemPoolProps){
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = type,
		.location = this_device(),
	};
}

CUmemAccessDesc full_access(void)
{
	return (CUmemAccessDesc){
		.location = this_device(),
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
}

/* ---------------------------------------------------------------- another process */

void send_bytes(const void *bytes, size_t count, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct iovec part = { (void *)(uintptr_t)bytes, count };
	struct msghdr whole = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		whole.msg_control = &control;
		whole.msg_controllen = sizeof(control);
	}
	require(sendmsg(line, &whole, 0) == (ssize_t)count, "the other process listens");
}

int receive_bytes(void *bytes, size_t count)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { bytes, count };
	struct msghdr whole = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				.msg_controllen = sizeof(control) };
	int fd = -1;

	require(recvmsg(line, &whole, 0) == (ssize_t)count, "the other process speaks");
	if (whole.msg_controllen)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

void hand_over(void)
{
	send_bytes("t", 1, -1);
}

void wait_for_turn(void)
{
	char turn;

	receive_bytes(&turn, 1);
}

void run_two(void (*giver)(void), void (*taker)(void))
{
	int pair[2], status = 0;
	pid_t child;

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "there are sockets");
	child = fork();
	require(child >= 0, "a process is forked");
	line = pair[child == 0];
	close(pair[child != 0]);
	pitfall_start();
	if (child == 0) {
		taker();
		exit(0);
	}
	giver();
	require(waitpid(child, &status, 0) == child, "the other process ends");
	tell("status of the other process", status);
}

/* ---------------------------------------------------------------- the cases */

static const struct pitfall_case *const families[] = {
	pitfall_memory_cases,  pitfall_pool_cases, pitfall_vmm_cases,
	pitfall_share_cases,   pitfall_context_cases, pitfall_copy_cases,
	pitfall_graph_cases,   pitfall_capture_cases, pitfall_module_cases,
	pitfall_peer_cases,
};

int main(int count, char **arguments)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
		for (const struct pitfall_case *one = families[i]; one->name; one++) {
			if (count < 2) {
				puts(one->name);
			} else if (!strcmp(one->name, arguments[1])) {
				one->run();
				return 0;
			}
		}
	if (count < 2)
		return 0;
	fprintf(stderr, "pitfall: there is no case %s\n", arguments[1]);
	return 2;
}
