/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_devices.c - copies and frees between two devices; a driver API program.
 *
 *	two_devices peer	every form of a copy between them, without and with
 *				peer access; what was asked for goes to the journal
 *	two_devices frees	blocks freed while the other device still uses them
 *	two_devices ipc		memory that another process, on the other device, opens
 *
 * It prints check sums of what arrived, the same bare and recorded.  With one
 * device, or two that cannot reach each other, it ends with status 77.
 */
#include "client.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, DEVICES = 2, ROUNDS = 12 };

static CUdevice device[DEVICES];
static CUcontext context[DEVICES];
static CUstream stream[DEVICES];
static char uuid[DEVICES][40];

static void use(int which)
{
	CALL(cuCtxSetCurrent, context[which]);
}

static void write_uuid(int which)
{
	CUuuid id;
	char *at = uuid[which];

	CALL(cuDeviceGetUuid, &id, device[which]);
	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			      (unsigned char)id.bytes[i]);
}

static void open_devices(void)
{
	int count = 0, reach = 0;

	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) || count < DEVICES) {
		fprintf(stderr, "two devices are needed\n");
		exit(CLIENT_SKIPPED);
	}
	for (int i = 0; i < DEVICES; i++) {
		CALL(cuDeviceGet, &device[i], i);
		write_uuid(i);
		CALL(cuDevicePrimaryCtxRetain, &context[i], device[i]);
		use(i);
		CALL(cuStreamCreate, &stream[i], CU_STREAM_NON_BLOCKING);
	}
	CALL(cuDeviceCanAccessPeer, &reach, device[0], device[1]);
	printf("peers %d\n", reach);
	use(0);
}

/* ------------------------------------------------------------------ journal */

static void journal(const char *api, int source, int target, size_t bytes)
{
	const char *path = getenv("JOURNAL");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "{\"check\": \"p2p\", \"api\": \"%s\", \"source\": \"%s\", ", api,
		uuid[source]);
	fprintf(file, "\"target\": \"%s\", \"bytes\": %zu}\n", uuid[target], bytes);
	fclose(file);
}

/* ------------------------------------------------------------------- copies */

static CUdeviceptr block[DEVICES];
static unsigned char seen[4 * MIB];

static uint32_t sum_of(const unsigned char *data, size_t bytes)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ data[i]) * 16777619u;
	return sum;
}

/* What lies in the block of a device now, and then a new pattern in the other's. */
static void check(const char *what, int target, size_t bytes)
{
	static unsigned char next = 1;

	for (int i = 0; i < DEVICES; i++) {
		use(i);
		CALL(cuCtxSynchronize, );
	}
	use(target);
	CALL(cuMemcpyDtoH, seen, block[target], bytes);
	printf("%-28s %08x\n", what, sum_of(seen, bytes));
	use(!target);
	CALL(cuMemsetD8, block[!target], next++, sizeof(seen));
	CALL(cuCtxSynchronize, );
}

#define COPY(source, target, bytes, function, ...) \
	do { \
		use(source); \
		CALL(function, __VA_ARGS__); \
		journal(CLIENT_NAME(function), source, target, bytes); \
		check(#function, target, bytes); \
	} while (0)

static void copy_3d(int source, int target)
{
	CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = block[source],
		.srcPitch = 2048, .srcHeight = 16, .srcContext = context[source],
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = block[target],
		.dstPitch = 2048, .dstHeight = 16, .dstContext = context[target],
		.WidthInBytes = 1000, .Height = 15, .Depth = 3,
	};
	size_t bytes = 1000 * 15 * 3;

	COPY(source, target, bytes, cuMemcpy3DPeer, &box);
	COPY(source, target, bytes, cuMemcpy3DPeerAsync, &box, stream[source]);
}

static void copy_all(int source, int target, size_t base)
{
	CUdeviceptr from = block[source], to = block[target];

	COPY(source, target, base + 1, cuMemcpyPeer, to, context[target], from, context[source],
	     base + 1);
	COPY(source, target, base + 2, cuMemcpyPeerAsync, to, context[target], from,
	     context[source], base + 2, stream[source]);
	COPY(source, target, base + 3, cuMemcpy, to, from, base + 3);
	COPY(source, target, base + 4, cuMemcpyAsync, to, from, base + 4, stream[source]);
	COPY(source, target, base + 5, cuMemcpyDtoD, to, from, base + 5);
	COPY(source, target, base + 6, cuMemcpyDtoDAsync, to, from, base + 6, stream[source]);
	copy_3d(source, target);
}

static void enable_access(void)
{
	for (int i = 0; i < DEVICES; i++) {
		use(i);
		CALL(cuCtxEnablePeerAccess, context[!i], 0);
	}
}

static int run_peer(void)
{
	for (int i = 0; i < DEVICES; i++) {
		use(i);
		CALL(cuMemAlloc, &block[i], sizeof(seen));
		CALL(cuMemsetD8, block[i], 7, sizeof(seen));
	}
	copy_all(0, 1, MIB);
	copy_all(1, 0, 2 * MIB);
	enable_access();
	copy_all(0, 1, 3 * MIB);
	copy_all(1, 0, 100000);
	for (int i = 0; i < DEVICES; i++) {
		use(i);
		CALL(cuMemFree, block[i]);
	}
	return 0;
}

/* -------------------------------------------------------------------- frees */

/*
 * The second device copies out of a block of the first one's, over and over, on
 * a stream of its own; meanwhile the block is freed and its place taken.
 */
static void free_under_copy(size_t bytes, int rounds, const char *what)
{
	CUdeviceptr shared, taken, own;
	uint64_t begin, end;

	use(1);
	CALL(cuMemAlloc, &own, bytes);
	use(0);
	CALL(cuMemAlloc, &shared, bytes);
	CALL(cuMemsetD8, shared, 90, bytes);
	CALL(cuCtxSynchronize, );
	use(1);
	for (int i = 0; i < rounds; i++)
		CALL(cuMemcpyPeerAsync, own, context[1], shared, context[0], bytes, stream[1]);
	use(0);
	begin = client_now_ns();
	CALL(cuMemFree, shared);
	end = client_now_ns();
	CALL(cuMemAlloc, &taken, bytes);
	CALL(cuMemsetD8, taken, 17, bytes);
	CALL(cuCtxSynchronize, );
	use(1);
	fprintf(stderr, "%s: the free took %.3f ms, the copies %s\n", what,
		(double)(end - begin) / 1e6,
		cuStreamQuery(stream[1]) == CUDA_SUCCESS ? "were done" : "went on");
	CALL(cuStreamSynchronize, stream[1]);
	CALL(cuMemcpyDtoH, seen, own + bytes - sizeof(seen), sizeof(seen));
	printf("%s: %08x\n", what, sum_of(seen, sizeof(seen)));
	CALL(cuMemFree, own);
	use(0);
	CALL(cuMemFree, taken);
}

static int run_frees(void)
{
	size_t bytes = getenv("TWO_SMALL") ? 8 * (size_t)MIB : 1024 * (size_t)MIB;

	for (int i = 0; i < 3; i++)
		free_under_copy(bytes, ROUNDS, "without peer access");
	enable_access();
	for (int i = 0; i < 3; i++)
		free_under_copy(bytes, ROUNDS, "with peer access");
	return 0;
}

/* ---------------------------------------------------------------------- IPC */

static void send_fd(int socket, int fd)
{
	char byte = 1, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec text = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (sendmsg(socket, &message, 0) != 1)
		exit(1);
}

static int receive_fd(int socket)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec text = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head;
	int fd;

	if (recvmsg(socket, &message, 0) != 1 || !(head = CMSG_FIRSTHDR(&message)))
		exit(1);
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

static void put(int socket, const void *data, size_t bytes)
{
	if (write(socket, data, bytes) != (ssize_t)bytes)
		exit(1);
}

static void get(int socket, void *data, size_t bytes)
{
	if (recv(socket, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		exit(1);
}

enum { SHARED = 24 * MIB };

/* The importer works on the second device; the bytes are the exporter's. */
static void look_at(CUdeviceptr there, const char *what)
{
	CUdeviceptr own;

	CALL(cuMemAlloc, &own, SHARED);
	CALL(cuMemcpyAsync, own, there, SHARED, stream[1]);
	CALL(cuStreamSynchronize, stream[1]);
	CALL(cuMemcpyDtoH, seen, own + SHARED - sizeof(seen), sizeof(seen));
	printf("%s: %08x\n", what, sum_of(seen, sizeof(seen)));
	CALL(cuMemFree, own);
}

static void import_pool(int socket)
{
	CUmemPoolPtrExportData data;
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemoryPool pool;
	CUdeviceptr there;
	int fd = receive_fd(socket);

	get(socket, &data, sizeof(data));
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	access.location.id = device[1];
	CALL(cuMemPoolSetAccess, pool, &access, 1);
	CALL(cuMemPoolImportPointer, &there, pool, &data);
	look_at(there, "pool");
	CALL(cuMemFree, there);
	CALL(cuMemPoolDestroy, pool);
	close(fd);
}

static int import(int socket)
{
	CUipcMemHandle handle;
	CUdeviceptr there;
	char done = 1;

	open_devices();
	use(1);
	get(socket, &handle, sizeof(handle));
	CALL(cuIpcOpenMemHandle, &there, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	look_at(there, "legacy");
	CALL(cuIpcCloseMemHandle, there);
	import_pool(socket);
	put(socket, &done, 1);
	fflush(stdout);
	return 0;
}

static void export_pool(int socket, CUmemoryPool *pool, CUdeviceptr *shared)
{
	CUmemPoolProps wanted = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemPoolPtrExportData data;
	int fd;

	wanted.location.id = device[0];
	CALL(cuMemPoolCreate, pool, &wanted);
	CALL(cuMemPoolExportToShareableHandle, &fd, *pool,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	CALL(cuMemAllocFromPoolAsync, shared, SHARED, *pool, stream[0]);
	CALL(cuMemsetD8Async, *shared, 55, SHARED, stream[0]);
	CALL(cuStreamSynchronize, stream[0]);
	CALL(cuMemPoolExportPointer, &data, *shared);
	send_fd(socket, fd);
	put(socket, &data, sizeof(data));
	close(fd);
}

static int run_ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr shared, pooled;
	CUmemoryPool pool;
	int ends[2], status;
	pid_t child;
	char done;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	child = fork();
	if (!child) {
		close(ends[0]);
		exit(import(ends[1]));
	}
	close(ends[1]);
	open_devices();
	CALL(cuMemAlloc, &shared, SHARED);
	CALL(cuMemsetD8, shared, 33, SHARED);
	CALL(cuCtxSynchronize, );
	CALL(cuIpcGetMemHandle, &handle, shared);
	put(ends[0], &handle, sizeof(handle));
	export_pool(ends[0], &pool, &pooled);
	if (read(ends[0], &done, 1) != 1)
		return 1;
	CALL(cuMemFree, shared);
	CALL(cuMemFreeAsync, pooled, stream[0]);
	CALL(cuStreamSynchronize, stream[0]);
	CALL(cuMemPoolDestroy, pool);
	waitpid(child, &status, 0);
	return status != 0;
}

int main(int count, char **argument)
{
	const char *name = count == 2 ? argument[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(name, "ipc"))
		return run_ipc();
	if (strcmp(name, "peer") && strcmp(name, "frees")) {
		fprintf(stderr, "usage: two_devices peer | frees | ipc\n");
		return 2;
	}
	open_devices();
	return name[0] == 'p' ? run_peer() : run_frees();
}
