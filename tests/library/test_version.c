/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

Suite *library_suite(void)
{
	return suite_create("version");
}
