/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/host.h - page-locking host memory that is there already, for a while.
 *
 * Registrations are undone at once, never queued.  Ranges must not overlap one that is
 * registered, through libcustody or, as the driver tells, otherwise.  Where one of several
 * ranges cannot be registered, those before it are undone in reverse order.  Ranges of 0
 * bytes are passed over.  Any thread.
 */
#ifndef CUSTODY_HOST_H
#define CUSTODY_HOST_H

#include <custody/array.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_pin;
struct custody_map;

struct custody_range {
	void *pointer;
	size_t bytes;
};

/*
 * Page-lock ranges until the end.  `flags`: enum custody_host_flags, PORTABLE, READ_ONLY
 * and IO_MEMORY of them.  The end waits for copies of this library that use the ranges,
 * then unregisters, latest first; it goes on where one fails and returns the first error.
 * CUSTODY_E_CAPTURING: not while a capture is live; the scope is still open.
 * Documented: with cuda.pinned(*arrays).
 */
CUSTODY_API int custody_pin_begin(struct custody_context *context,
				  const struct custody_range *ranges, size_t count,
				  unsigned int flags, struct custody_pin **pin);
CUSTODY_API int custody_pin_end(struct custody_pin *pin);

/* End at the end of a block: struct custody_pin *pin CUSTODY_AUTO_PIN = NULL; */
#define CUSTODY_AUTO_PIN __attribute__((cleanup(custody_pin_leave)))
CUSTODY_API void custody_pin_leave(struct custody_pin **pin);

/*
 * The same, mapped into the device: an array for each range, with the given layouts
 * (NULL: bytes; all have one `size`), bound to `stream`.  The arrays are the scope's, and
 * are destroyed with it; views that the caller made of them stay his, but are
 * CUSTODY_E_CLOSED from then on.
 * Documented: with cuda.mapped(*arrays, stream).
 */
CUSTODY_API int custody_map_begin(struct custody_context *context,
				  const struct custody_range *ranges,
				  const struct custody_layout *layouts, size_t count,
				  unsigned int flags, struct custody_stream *stream,
				  struct custody_map **map);
CUSTODY_API int custody_map_array(struct custody_map *map, size_t index,
				  struct custody_array **array);
CUSTODY_API int custody_map_end(struct custody_map *map);

/* The same: struct custody_map *map CUSTODY_AUTO_MAP = NULL; */
#define CUSTODY_AUTO_MAP __attribute__((cleanup(custody_map_leave)))
CUSTODY_API void custody_map_leave(struct custody_map **map);

#ifdef __cplusplus
}
#endif
#endif
