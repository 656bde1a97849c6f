/* SPDX-License-Identifier: Apache-2.0 */
/* busy_read.c - prints what busy.c counted: "tid allocs frees copies sets queries" a thread. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	uint64_t row[8];
	int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;

	if (file < 0)
		return 1;
	while (read(file, row, sizeof(row)) == sizeof(row))
		if (row[0])
			printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			       " %" PRIu64 "\n",
			       row[0], row[1], row[2], row[3], row[4], row[5]);
	close(file);
	return 0;
}
