/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/error.h - what functions of libcustody return.
 *
 * 0 is success.  Negative values are CUSTODY_E_*, listed once below.  Positive
 * values are the CUresult that the driver gave, unchanged.  Results go out by
 * pointer and are left as they were where a function fails, unless it says
 * otherwise.  No function aborts, prints or ends the process.
 */
#ifndef CUSTODY_ERROR_H
#define CUSTODY_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define CUSTODY_API __attribute__((visibility("default")))

/* Name, value, what it means. */
#define CUSTODY_ERROR_MAP(X)                                                                       \
	X(CUSTODY_E_INVALID, -1, "an argument is not valid")                                       \
	X(CUSTODY_E_NO_MEMORY, -2, "the host has no memory left")                                  \
	X(CUSTODY_E_NO_DRIVER, -3, "no CUDA driver can be used")                                   \
	X(CUSTODY_E_NO_DEVICE, -4, "there is no such CUDA device")                                 \
	X(CUSTODY_E_NO_CONTEXT, -5, "no context is current")                                       \
	X(CUSTODY_E_STALE, -6, "its context was reset or destroyed")                               \
	X(CUSTODY_E_FORKED, -7, "CUDA was used before this process was forked")                    \
	X(CUSTODY_E_EXITING, -8, "the process is ending")                                          \
	X(CUSTODY_E_CONTEXT_ORDER, -9, "the context is not on top of this thread's stack")         \
	X(CUSTODY_E_CLOSED, -10, "it was closed before")                                           \
	X(CUSTODY_E_DOUBLE_FREE, -11, "the memory was freed before")                               \
	X(CUSTODY_E_UNKNOWN, -12, "the memory is not of this resource")                            \
	X(CUSTODY_E_BUSY, -13, "it is in use, or it is too late for that")                         \
	X(CUSTODY_E_UNSUPPORTED, -14, "this device or driver does not support it")                 \
	X(CUSTODY_E_CAPTURING, -15, "not while the stream is capturing")                           \
	X(CUSTODY_E_NOT_CAPTURING, -16, "only while the stream is capturing")                      \
	X(CUSTODY_E_MISMATCH, -17, "shapes, sizes or types do not match")                          \
	X(CUSTODY_E_BOUNDS, -18, "it reaches beyond the memory")                                   \
	X(CUSTODY_E_NEEDS_COPY, -19, "it cannot be done without a copy")                           \
	X(CUSTODY_E_OVERLAP, -20, "the range overlaps one that is registered")                     \
	X(CUSTODY_E_OWN_PROCESS, -21, "the descriptor was exported by this process")               \
	X(CUSTODY_E_CORRUPT, -22, "the descriptor is damaged or no descriptor")                    \
	X(CUSTODY_E_SYSTEM, -23, "the operating system refused")                                   \
	X(CUSTODY_E_TIMEOUT, -24, "the time is over")

#define CUSTODY_ERROR_VALUE(name, value, text) name = value,
enum custody_error { CUSTODY_ERROR_MAP(CUSTODY_ERROR_VALUE) CUSTODY_OK = 0 };
#undef CUSTODY_ERROR_VALUE

/*
 * The name of an error: "CUSTODY_E_STALE", or the driver's own name of a CUresult
 * ("CUDA_ERROR_OUT_OF_MEMORY"); "CUSTODY_E_?" for what is neither.
 * The text is static.  Any thread.  Where the driver cannot be asked (not initialised
 * yet, in a child of fork, at exit) rare errors of its own are "CUDA_ERROR_?".
 */
CUSTODY_API const char *custody_error_name(int error);

/*
 * The same, as the end of a sentence, without a capital or a full stop; "an error of the
 * driver" where that cannot be asked.
 */
CUSTODY_API const char *custody_error_text(int error);

/*
 * What the last function of libcustody on this thread has to say beyond its result, where
 * it has failed: one sentence with the numbers and names of the case, "" if nothing.
 * Valid until this thread calls the next function.
 */
CUSTODY_API const char *custody_error_detail(void);

#ifdef __cplusplus
}
#endif
#endif
