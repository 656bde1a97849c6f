/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_descriptor.c - what is in the bytes of a descriptor.  Both processes run on one
 * machine, so numbers are as that has them.  Whatever arrives is looked at in full: a
 * checksum tells what is damaged, and is no proof of who has written it.
 */
#include "library/ipc.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { DESCRIPTOR_VERSION = 1 };

static const char magic[8] = { 'c', 'u', 's', 't', 'o', 'd', 'y', 'I' };

struct layout {
	char magic[8];
	uint32_t version;
	uint32_t kind;
	unsigned char process[IPC_PROCESS_BYTES];
	unsigned char uuid[IPC_UUID_BYTES];
	uint64_t offset;
	uint64_t bytes;
	uint64_t whole_bytes;
	unsigned char handle[IPC_HANDLE_BYTES];
	unsigned char zeros[48];
	uint64_t checksum; /* of all before it */
};

_Static_assert(sizeof(struct layout) == CUSTODY_IPC_BYTES, "a descriptor is full");

int ipc_descriptor_process(unsigned char process[IPC_PROCESS_BYTES])
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static unsigned char name[IPC_PROCESS_BYTES];
	static bool has_name;
	int error = 0;

	pthread_mutex_lock(&lock);
	if (!has_name && getrandom(name, sizeof(name), 0) != (ssize_t)sizeof(name))
		error = CUSTODY_E_SYSTEM;
	has_name = !error;
	memcpy(process, name, sizeof(name));
	pthread_mutex_unlock(&lock);
	return error ? error_say(error, "no random number can be had: %s", strerror(errno)) : 0;
}

/* FNV-1a of 64 bits. */
static uint64_t checksum_of(const struct layout *layout)
{
	const unsigned char *bytes = (const unsigned char *)layout;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < offsetof(struct layout, checksum); i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

void ipc_descriptor_write(const struct ipc_content *content,
			  struct custody_ipc_descriptor *descriptor)
{
	struct layout layout = {
		.version = DESCRIPTOR_VERSION,
		.kind = (uint32_t)content->kind,
		.offset = content->offset,
		.bytes = content->bytes,
		.whole_bytes = content->whole_bytes,
	};

	memcpy(layout.magic, magic, sizeof(magic));
	memcpy(layout.process, content->process, sizeof(layout.process));
	memcpy(layout.uuid, content->uuid, sizeof(layout.uuid));
	memcpy(layout.handle, content->handle, sizeof(layout.handle));
	layout.checksum = checksum_of(&layout);
	memcpy(descriptor->bytes, &layout, sizeof(layout));
}

static bool has_zeros(const struct layout *layout)
{
	for (size_t i = 0; i < sizeof(layout->zeros); i++)
		if (layout->zeros[i])
			return false;
	return true;
}

static int check(const struct layout *layout)
{
	if (memcmp(layout->magic, magic, sizeof(magic)) != 0)
		return error_say(CUSTODY_E_CORRUPT, "the bytes are no descriptor of libcustody's");
	if (layout->checksum != checksum_of(layout))
		return error_say(CUSTODY_E_CORRUPT, "the descriptor is damaged");
	if (layout->version != DESCRIPTOR_VERSION || !has_zeros(layout))
		return error_say(CUSTODY_E_CORRUPT, "the descriptor is of another version, %u",
				 layout->version);
	if (layout->kind != IPC_LEGACY && layout->kind != IPC_POOL)
		return error_say(CUSTODY_E_CORRUPT, "the descriptor is of kind %u, which there is "
				 "not", layout->kind);
	if (!layout->bytes || layout->offset > layout->whole_bytes ||
	    layout->bytes > layout->whole_bytes - layout->offset)
		return error_say(CUSTODY_E_CORRUPT, "the descriptor is of %llu bytes from byte "
				 "%llu of %llu on", (unsigned long long)layout->bytes,
				 (unsigned long long)layout->offset,
				 (unsigned long long)layout->whole_bytes);
	return 0;
}

int ipc_descriptor_read(const struct custody_ipc_descriptor *descriptor,
			struct ipc_content *content)
{
	struct layout layout;
	int error;

	memcpy(&layout, descriptor->bytes, sizeof(layout));
	error = check(&layout);
	if (error)
		return error;
	*content = (struct ipc_content){
		.kind = (enum ipc_kind)layout.kind,
		.offset = layout.offset,
		.bytes = layout.bytes,
		.whole_bytes = layout.whole_bytes,
	};
	memcpy(content->process, layout.process, sizeof(content->process));
	memcpy(content->uuid, layout.uuid, sizeof(content->uuid));
	memcpy(content->handle, layout.handle, sizeof(content->handle));
	return 0;
}
