/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: one address for host and device.  Advice and prefetches say where it
 * is wanted next; they may be given everywhere, and do nothing where a device cannot.
 */
#include "must.h"

enum { COUNT = 1 << 20 };

int main(void)
{
	const struct custody_location on_host = { .kind = CUSTODY_LOCATION_HOST };
	struct custody_context *context = open_context();
	struct custody_device *device = custody_context_device(context);
	const struct custody_location on_device = {
		.kind = CUSTODY_LOCATION_DEVICE,
		.id = custody_device_ordinal(device),
	};
	struct custody_resource *memory;
	struct custody_buffer *buffer;
	struct custody_stream *stream;
	uint32_t *numbers;
	uint64_t sum = 0;

	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_resource_managed(context, true, &memory));
	MUST(custody_buffer_create(memory, COUNT * sizeof(*numbers), stream, &buffer));
	MUST(custody_managed_advise(buffer, CUSTODY_ADVICE_PREFERRED_LOCATION, on_device, true));

	numbers = custody_buffer_pointer(buffer);
	for (uint32_t i = 0; i < COUNT; i++)
		numbers[i] = i;

	MUST(custody_managed_prefetch(buffer, on_device, stream));
	MUST(custody_buffer_fill(buffer, &(uint32_t){ 3 }, 4, stream));
	MUST(custody_managed_prefetch(buffer, on_host, stream));
	MUST(custody_stream_synchronize(stream)); /* before the host touches it again */

	for (uint32_t i = 0; i < COUNT; i++)
		sum += numbers[i];
	CHECK(sum == UINT64_C(3) * COUNT);
	printf("sum         %llu, without a copy in the program\n", (unsigned long long)sum);

	MUST(custody_buffer_release(buffer));
	MUST(custody_resource_release(memory));
	MUST(custody_stream_destroy(stream));
	return 0;
}
