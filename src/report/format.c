/* SPDX-License-Identifier: Apache-2.0 */
#include "report/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Three significant figures, and 1023 rather than 0.99 of the next unit. */
static int print_figures(char *text, double number)
{
	int decimals = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;

	return snprintf(text, FORMAT_BYTES, "%.*f", decimals, number);
}

char *format_bytes(char *text, int64_t bytes)
{
	static const char *const unit[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double number = (double)bytes / 1024;
	size_t at = 0;

	if (bytes <= -1024 && bytes > INT64_MIN) {
		*text = '-';
		format_bytes(text + 1, -bytes);
		return text;
	}
	if (bytes < 1024) {
		snprintf(text, FORMAT_BYTES, "%" PRId64 " B", bytes);
		return text;
	}
	for (; number >= 1023.5 && at < 5; at++)
		number /= 1024;
	strcat(text + print_figures(text, number), " ");
	strcat(text, unit[at]);
	return text;
}

char *format_rate(char *text, int64_t bytes_per_second)
{
	return strcat(format_bytes(text, bytes_per_second), "/s");
}

char *format_count(char *text, int64_t count)
{
	char digits[FORMAT_BYTES];
	int length = snprintf(digits, sizeof(digits), "%" PRId64, count);
	char *end = text;

	for (int i = 0; i < length; i++) {
		*end++ = digits[i];
		if ((length - i) % 3 == 1 && i + 1 < length && digits[i] != '-')
			*end++ = ',';
	}
	*end = '\0';
	return text;
}

static char *print_long(char *text, int64_t seconds)
{
	if (seconds < 3600)
		snprintf(text, FORMAT_BYTES, "%" PRId64 " min %02" PRId64 " s", seconds / 60,
			 seconds % 60);
	else
		snprintf(text, FORMAT_BYTES, "%" PRId64 " h %02" PRId64 " min", seconds / 3600,
			 seconds % 3600 / 60);
	return text;
}

char *format_duration(char *text, int64_t ns)
{
	static const char *const unit[] = { "us", "ms", "s" };
	double number = (double)ns / 1000;
	size_t at = 0;

	if (ns < 1000) {
		snprintf(text, FORMAT_BYTES, "%" PRId64 " ns", ns);
		return text;
	}
	if (ns >= INT64_C(120000000000))
		return print_long(text, ns / 1000000000);
	for (; number >= 999.5 && at < 2; at++)
		number /= 1000;
	strcat(text + print_figures(text, number), " ");
	strcat(text, unit[at]);
	return text;
}

char *format_moment(char *text, int64_t ns)
{
	/* Milliseconds tell moments of a long run apart; a short one needs more. */
	if (ns > -1000000000 && ns < 1000000000)
		snprintf(text, FORMAT_BYTES, "%.3f ms", (double)ns / 1e6);
	else
		snprintf(text, FORMAT_BYTES, "%.3f s", (double)ns / 1e9);
	return text;
}

/* One decimal where whole percents would hide the difference from none or all. */
char *format_share(char *text, int64_t ten_thousandths)
{
	double percent = (double)ten_thousandths / 100;

	if (percent > 0 && percent < 0.1)
		strcpy(text, "<0.1 %");
	else if (percent > 0 && (percent < 9.95 || (percent > 99 && percent < 99.95)))
		snprintf(text, FORMAT_BYTES, "%.1f %%", percent);
	else
		snprintf(text, FORMAT_BYTES, "%.0f %%", percent);
	return text;
}

char *format_driver(char *text, int64_t version)
{
	snprintf(text, FORMAT_BYTES, "%" PRId64 ".%" PRId64, version / 1000, version % 1000 / 10);
	return text;
}
