/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress in both forms, by the rules measured on a real driver. */
#include "sim.h"
#include "entries.h"

enum answer { ANSWER_FOUND, ANSWER_UNKNOWN, ANSWER_TOO_OLD };

/* A driver of the played version knows nothing of what came later. */
static bool is_known(const struct lookup_row *row, const char *base)
{
	return row->since >= 0 && row->since <= settings.version && strcmp(row->base, base) == 0;
}

static bool has_twin(const char *base)
{
	for (unsigned i = 0; i < lookup_row_count; i++)
		if (lookup_rows[i].per_thread && is_known(&lookup_rows[i], base))
			return true;
	return false;
}

/* The newest form that is old enough for the caller. */
static enum answer find(const char *base, int version, bool per_thread, void **address)
{
	const struct lookup_row *best = NULL;
	enum answer answer = ANSWER_UNKNOWN;

	per_thread = per_thread && has_twin(base);
	for (unsigned i = 0; i < lookup_row_count; i++) {
		const struct lookup_row *row = &lookup_rows[i];

		if (!is_known(row, base) || row->per_thread != per_thread)
			continue;
		answer = ANSWER_TOO_OLD;
		if ((version < 0 || row->since <= version) && (!best || row->since > best->since))
			best = row;
	}
	if (!best)
		return answer;
	*address = best->address;
	return ANSWER_FOUND;
}

static CUresult check_request(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	int unused;

	/* The real driver dereferences both. */
	if (!symbol || !pfn)
		config_die("%s: %s is NULL", sim_thread.call, symbol ? "pfn" : "symbol");
	config_version(&unused);
	if (version > settings.version || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult lookup_find(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	CUresult error = check_request(symbol, pfn, driverVersion, flags);

	if (error)
		return error;
	if (find(symbol, driverVersion, flags & 2, pfn) != ANSWER_FOUND)
		return CUDA_ERROR_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult lookup_find_status(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
			    CUdriverProcAddressQueryResult *symbolFound)
{
	CUresult error = check_request(symbol, pfn, driverVersion, flags);
	enum answer answer;

	if (error)
		return error;
	answer = find(symbol, driverVersion, flags & 2, pfn);
	if (answer != ANSWER_FOUND)
		*pfn = NULL;
	if (symbolFound)
		*symbolFound = (CUdriverProcAddressQueryResult)answer;
	return CUDA_SUCCESS;
}

/* The private tables of the real driver are not imitated. */
CUresult lookup_export_table(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
