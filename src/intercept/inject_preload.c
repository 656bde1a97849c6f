/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry in the preload.  The driver starts inside a call of the program; if
 * that call is not open here, it came past us: by a library that was opened with
 * RTLD_DEEPBIND and is linked with libcuda.
 */
#include "core/notice.h"
#include "core/option.h"
#include "intercept/call.h"
#include "intercept/inject.h"

#include <string.h>

int custody_injected(void)
{
	struct thread_segment *self = &thread_segment;

	if (!call_is_open(self))
		return 1; /* as it should be */
	if (!*segment_directory())
		return 1;
	segment_note(CONTROL_PAST);
	notice_once("the driver was started by a call that does not come past the preload, as of a "
		    "library that was opened with RTLD_DEEPBIND; what comes that way is not "
		    "recorded%s",
		    strcmp(option_text(OPTION_DEEPBIND), "clear") ?
			    " (CUSTODY_DEEPBIND=clear may help)" : "");
	return 1;
}
