/* SPDX-License-Identifier: Apache-2.0 */
/* door_getproc.c - everything by the linked cuGetProcAddress_v2, as NVIDIA's bindings do. */
#include "journal.h"
#include "story.h"

#include <string.h>

int main(void)
{
	const struct story_function *function;
	struct story_driver driver;
	void *found;

	for (function = story_functions; function->base; function++) {
		found = NULL;
		must("cuGetProcAddress_v2",
		     cuGetProcAddress(function->base, &found, function->version,
				      CU_GET_PROC_ADDRESS_DEFAULT, NULL));
		require(found != NULL, "every function of the story is found");
		memcpy((char *)&driver + function->offset, &found, sizeof(found));
	}
	story_tell(&driver, 0);
	return 0;
}
