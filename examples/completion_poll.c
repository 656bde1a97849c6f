/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop that waits for the device as for anything else: the end of a stream's
 * work is a descriptor for poll(2), beside sockets and timers.  Nobody spins, and no
 * thread stands in the driver.
 */
#include "must.h"

#include <poll.h>

enum { STREAMS = 3, BYTES = 64 << 20 };

struct job {
	struct custody_stream *stream;
	struct custody_buffer *buffer;
	struct custody_completion *completion;
};

/* Job 0 has the most to do, the last one the least. */
static void begin_job(struct job *job, struct custody_context *context, int number)
{
	struct custody_stream_options options = {
		.size = sizeof(options),
		.is_nonblocking = true,
	};
	unsigned char value = (unsigned char)(number + 1);

	MUST(custody_stream_create(context, &options, &job->stream));
	MUST(custody_buffer_create(NULL, BYTES, job->stream, &job->buffer));
	for (int i = 0; i < (STREAMS - number) * 8; i++)
		MUST(custody_buffer_fill(job->buffer, &value, 1, job->stream));
	MUST(custody_stream_completion(job->stream, &job->completion));
}

static void end_job(struct job *job, int number)
{
	CUresult status;
	unsigned char last;

	CHECK(custody_completion_poll(job->completion, &status) && status == CUDA_SUCCESS);
	MUST(custody_buffer_read(job->buffer, BYTES - 1, &last, 1, NULL));
	CHECK(last == number + 1);
	printf("done        job %d\n", number);
	custody_completion_destroy(job->completion);
	MUST(custody_buffer_release(job->buffer));
	MUST(custody_stream_destroy(job->stream));
}

int main(void)
{
	struct custody_context *context = open_context();
	struct pollfd watched[STREAMS];
	struct job jobs[STREAMS];
	int left = STREAMS;

	for (int i = 0; i < STREAMS; i++) {
		begin_job(&jobs[i], context, i);
		watched[i].fd = custody_completion_descriptor(jobs[i].completion);
		watched[i].events = POLLIN;
	}
	printf("begun       %d jobs\n", STREAMS);
	while (left) {
		CHECK(poll(watched, STREAMS, 60000) > 0);
		for (int i = 0; i < STREAMS; i++) {
			if (watched[i].fd < 0 || !(watched[i].revents & POLLIN))
				continue;
			watched[i].fd = -1; /* it is closed with the completion */
			end_job(&jobs[i], i);
			left--;
		}
	}
	return 0;
}
