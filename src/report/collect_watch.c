/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

int collect_watch_open(const char *directory)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (watch >= 0 && inotify_add_watch(watch, directory, IN_CREATE | IN_ONLYDIR) < 0) {
		close(watch);
		watch = -1;
	}
	return watch;
}

void collect_watch_drain(int watch)
{
	char events[4096];

	while (read(watch, events, sizeof(events)) > 0)
		;
}
