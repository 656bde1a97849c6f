/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes, one memory: the first exports a buffer of the device resource and one
 * of a shareable pool; the second opens both, finds what was written, and answers.  They
 * part before either uses CUDA; the exporter frees when it hears that the other has closed.
 */
#include "must.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, QUESTION = 0x11, ANSWER = 0x22 };

struct letter {
	struct custody_ipc_descriptor plain, pooled;
};

/* Send the letter with a file descriptor beside it or, for -1, receive both. */
static int pass(int socket, struct letter *letter, int descriptor)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr *head = (struct cmsghdr *)room;
	struct iovec part = { letter, sizeof(*letter) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
				  .msg_control = room, .msg_controllen = sizeof(room) };

	if (descriptor < 0) {
		CHECK(recvmsg(socket, &message, MSG_WAITALL) == sizeof(*letter));
		memcpy(&descriptor, CMSG_DATA(head), sizeof(descriptor));
		return descriptor;
	}
	*head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(head), &descriptor, sizeof(descriptor));
	CHECK(sendmsg(socket, &message, 0) == sizeof(*letter));
	return descriptor;
}

static void expect_byte(struct custody_buffer *buffer, unsigned char expected)
{
	unsigned char bytes[2];

	MUST(custody_buffer_read(buffer, 0, bytes, 1, NULL)); /* the first and the last */
	MUST(custody_buffer_read(buffer, BYTES - 1, bytes + 1, 1, NULL));
	CHECK(bytes[0] == expected && bytes[1] == expected);
}

static void answer(struct custody_context *context, struct custody_resource *pool,
		   const struct custody_ipc_descriptor *descriptor)
{
	struct custody_buffer *buffer;

	MUST(custody_buffer_import(context, descriptor, pool, NULL, &buffer));
	expect_byte(buffer, QUESTION);
	MUST(custody_buffer_fill(buffer, &(char){ ANSWER }, 1, NULL));
	MUST(custody_buffer_release(buffer));
}

static int import(int socket)
{
	struct custody_resource *pool;
	struct letter letter;
	int descriptor = pass(socket, &letter, -1);
	struct custody_context *context = open_context();

	MUST(custody_resource_import(context, descriptor, &pool));
	close(descriptor);
	answer(context, NULL, &letter.plain);
	answer(context, pool, &letter.pooled);
	MUST(custody_resource_release(pool));
	CHECK(write(socket, "", 1) == 1); /* all is closed here */
	return 0;
}

static void export(int socket)
{
	struct custody_pool_options options = { .size = sizeof(options), .is_shareable = true };
	struct custody_context *context = open_context();
	struct custody_resource *pool;
	struct custody_buffer *plain, *pooled;
	struct letter letter;
	int descriptor;

	MUST(custody_resource_pool(context, &options, &pool));
	MUST(custody_buffer_create(NULL, BYTES, NULL, &plain));
	MUST(custody_buffer_create(pool, BYTES, NULL, &pooled));
	MUST(custody_buffer_fill(plain, &(char){ QUESTION }, 1, NULL));
	MUST(custody_buffer_fill(pooled, &(char){ QUESTION }, 1, NULL));
	MUST(custody_buffer_export(plain, &letter.plain));
	MUST(custody_buffer_export(pooled, &letter.pooled));
	MUST(custody_resource_export(pool, &descriptor));
	pass(socket, &letter, descriptor);
	close(descriptor);

	CHECK(read(socket, &(char){ 0 }, 1) == 1);
	expect_byte(plain, ANSWER);
	expect_byte(pooled, ANSWER);
	printf("answered    %d bytes of a buffer and as many of a pool\n", BYTES);
	MUST(custody_buffer_release(plain));
	MUST(custody_buffer_release(pooled));
	MUST(custody_resource_release(pool));
}

int main(void)
{
	int sockets[2], status;
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	child = fork();
	CHECK(child >= 0);
	close(sockets[child == 0 ? 0 : 1]);
	if (child == 0)
		return import(sockets[1]);
	export(sockets[0]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
