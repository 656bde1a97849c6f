/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linked.h - driver functions that objects of the program are linked with and
 * that we do not stand in front of: no look-up tells of those.
 */
#ifndef CUSTODY_INTERCEPT_LINKED_H
#define CUSTODY_INTERCEPT_LINKED_H

/* Note them, for the next recorded call; done when a device is met first, and at the end. */
void linked_note(void);

#endif
