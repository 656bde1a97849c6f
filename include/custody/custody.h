/* SPDX-License-Identifier: Apache-2.0 */
/* custody/custody.h - all of libcustody. */
#ifndef CUSTODY_CUSTODY_H
#define CUSTODY_CUSTODY_H

#include <custody/array.h>
#include <custody/buffer.h>
#include <custody/cai.h>
#include <custody/completion.h>
#include <custody/context.h>
#include <custody/defer.h>
#include <custody/device.h>
#include <custody/dlpack.h>
#include <custody/error.h>
#include <custody/event.h>
#include <custody/host.h>
#include <custody/ipc.h>
#include <custody/managed.h>
#include <custody/profile.h>
#include <custody/resource.h>
#include <custody/stream.h>
#include <custody/trace.h>
#include <custody/version.h>

#endif
