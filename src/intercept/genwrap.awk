# SPDX-License-Identifier: Apache-2.0
#
# genwrap.awk - driver.tbl -> wrappers.c, wrappers_nop.c, driver_table.h,
# preload.map and api_names.h.
#
#	awk -f genwrap.awk -v make=wrappers driver.tbl > wrappers.c
#
# make is wrappers, nop, table, map or names.  A row that cannot be understood,
# or that stands twice, ends with its file and line on standard error and exit 1.

function fail(reason)
{
	printf "%s:%d: %s\n", FILENAME, FNR, reason > "/dev/stderr"
	failed = 1
	exit 1
}

function trim(text)
{
	sub(/^[ \t]+/, "", text)
	sub(/[ \t]+$/, "", text)
	return text
}

# "CUdeviceptr *dptr, size_t bytesize" -> "dptr, bytesize"
function argument_names(list,    count, part, i, names)
{
	if (list == "void")
		return ""
	count = split(list, part, ",")
	names = ""
	for (i = 1; i <= count; i++) {
		if (!match(part[i], /[A-Za-z_][A-Za-z0-9_]*[ \t]*$/))
			fail("parameter without a name: " part[i])
		names = names (i > 1 ? ", " : "") trim(substr(part[i], RSTART))
	}
	return names
}

function check_hook(text, its_role)
{
	if (text == "-") {
		if (its_role == "op" || its_role == "hook")
			fail("role " its_role " needs a hook")
		return
	}
	if (text !~ /^(after|around): [a-z][a-z0-9_]*\(.*\)$/)
		fail("not a hook: " text)
	if (text ~ /^around/ && its_role != "hook")
		fail("role " its_role " has no use for an around hook")
}

function read_row(column,    n)
{
	n = ++rows
	symbol[n] = trim(column[1])
	base[n] = trim(column[2])
	since[n] = trim(column[3])
	variant[n] = trim(column[4])
	role[n] = trim(column[5])
	hook[n] = trim(column[6])
	parameters[n] = trim(column[7])
	if (symbol[n] !~ /^cu[A-Z][A-Za-z0-9_]*$/)
		fail("not a driver symbol: " symbol[n])
	if (symbol[n] in line_of)
		fail(symbol[n] " stands in line " line_of[symbol[n]] " too")
	if (index(symbol[n], base[n]) != 1)
		fail(symbol[n] " does not begin with " base[n])
	if (since[n] !~ /^[1-9][0-9]*$/)
		fail("not a version: " since[n])
	if (variant[n] !~ /^(-|ptds|ptsz)$/)
		fail("not a variant: " variant[n])
	if (role[n] !~ /^(count|time|op|hook)$/)
		fail("not a role: " role[n])
	if ((variant[n] == "-") != (symbol[n] !~ /_pt[ds][sz]$/))
		fail(symbol[n] " and variant " variant[n] " do not agree")
	check_hook(hook[n], role[n])
	line_of[symbol[n]] = FNR
	arguments[n] = argument_names(parameters[n])
	slot[n] = -1
	if (role[n] == "count" || role[n] == "time")
		slot[n] = slots++
}

function pfn(n)
{
	return "PFN_" base[n] "_v" since[n] (variant[n] == "-" ? "" : "_" variant[n])
}

# The call of a hook, its streams bound to what 0 means in this variant.
function hook_call(n, suffix,    text, open)
{
	text = hook[n]
	sub(/^[a-z]+: /, "", text)
	gsub(/STREAM\(/, (variant[n] == "-" ? "STREAM_OF_LEGACY(" : "STREAM_OF_THREAD("), text)
	open = index(text, "(")
	return "hook_" substr(text, 1, open - 1) suffix "(&call, " substr(text, open + 1)
}

function head(what)
{
	print "/* SPDX-License-Identifier: Apache-2.0 */"
	print "/* " what "  Made by genwrap.awk from driver.tbl. */"
}

function signature(n)
{
	return "CUresult CUDAAPI " symbol[n] "(" parameters[n] ")"
}

function forward(n, table)
{
	return "REAL(" table ", " symbol[n] ")(" arguments[n] ")"
}

function open_wrapper(n)
{
	print ""
	print "EXPORT " signature(n)
	print "{"
}

function write_recorded(n)
{
	print "\tstruct call call;"
	print ""
	print "\tif (!call_begin(&call, API_" symbol[n] ", CALLER))"
	print "\t\treturn " forward(n, "driver") ";"
	if (hook[n] ~ /^around/)
		print "\t" hook_call(n, "_before") ";"
	print "\tcall_returned(&call, " forward(n, "next") ");"
	print "\t" hook_call(n, hook[n] ~ /^around/ ? "_after" : "") ";"
	print "\treturn call_end(&call);"
}

function write_counted(n,    timed)
{
	timed = (role[n] == "time") ? "timed" : "counted"
	print "\tstruct call call;"
	print ""
	print "\tif (!call_begin_" timed "(&call, API_" symbol[n] ", CALLER))"
	print "\t\treturn " forward(n, "driver") ";"
	print "\tcall_returned_" timed "(&call, " forward(n, "next") ");"
	if (hook[n] != "-")
		print "\t" hook_call(n, "") ";"
	print "\treturn call_end_" timed "(&call, " slot[n] ");"
}

function make_wrappers(    n)
{
	head("What stands in front of each driver function.")
	print "#include \"intercept/wrapper.h\""
	for (n = 1; n <= rows; n++) {
		open_wrapper(n)
		if (slot[n] < 0)
			write_recorded(n)
		else
			write_counted(n)
		print "}"
	}
	write_tables()
}

# The empty twin: the same doors and exports, nothing recorded.
function make_nop(    n)
{
	head("Wrappers that only forward, to measure what recording adds.")
	print "#include \"intercept/wrapper.h\""
	for (n = 1; n <= rows; n++) {
		open_wrapper(n)
		if (hook[n] ~ /^after: entry_/) {
			print "\tCUresult result = " forward(n, "next") ";"
			print ""
			print "\tdoors_replace_entry(result, symbol, pfn, cudaVersion, flags);"
			print "\treturn result;"
		} else {
			print "\treturn " forward(n, "next") ";"
		}
		print "}"
	}
	write_tables()
}

function write_tables(    n)
{
	print ""
	print "const char *const api_symbol[API_COUNT] = {"
	for (n = 1; n <= rows; n++)
		print "\t\"" symbol[n] "\","
	print "};"
	print ""
	print "void *const api_wrapper[API_COUNT] = {"
	for (n = 1; n <= rows; n++)
		print "\t(void *)" symbol[n] ","
	print "};"
	print ""
	print "const uint16_t api_of_slot[SLOT_COUNT] = {"
	for (n = 1; n <= rows; n++)
		if (slot[n] >= 0)
			print "\tAPI_" symbol[n] ","
	print "};"
}

function make_table(    n)
{
	head("The driver functions of driver.tbl: numbers and types.")
	print "#ifndef CUSTODY_INTERCEPT_DRIVER_TABLE_H"
	print "#define CUSTODY_INTERCEPT_DRIVER_TABLE_H"
	print ""
	print "#include \"intercept/cuda_abi.h\""
	print ""
	print "enum api {"
	for (n = 1; n <= rows; n++)
		print "\tAPI_" symbol[n] ","
	print "\tAPI_COUNT"
	print "};"
	print ""
	print "enum { SLOT_COUNT = " slots " };"
	print ""
	print "/* Only the types of its members are used, to check calls through plain pointers. */"
	print "struct api_type {"
	for (n = 1; n <= rows; n++)
		print "\t" pfn(n) " " symbol[n] ";"
	print "};"
	print ""
	print "extern const char *const api_symbol[API_COUNT];"
	print "extern void *const api_wrapper[API_COUNT];"
	print "extern const uint16_t api_of_slot[SLOT_COUNT];"
	print ""
	print "#endif"
}

# The anonymous node matters: with a named one the loader passes our dlsym over.
function make_map(    n)
{
	print "/* Made by genwrap.awk from driver.tbl. */"
	print "{"
	print "global:"
	print "\tdlsym;"
	print "\tdlvsym;"
	for (n = 1; n <= rows; n++)
		print "\t" symbol[n] ";"
	print "local:"
	print "\t*;"
	print "};"
}

function make_names(    n, letter)
{
	head("Names of the driver functions in a trace, in the order of record.api.")
	print "#ifndef CUSTODY_CORE_API_NAMES_H"
	print "#define CUSTODY_CORE_API_NAMES_H"
	print ""
	print "enum { API_NAMES = " rows ", API_NAME_SLOTS = " slots " };"
	print ""
	print "/* A function that is counted has a slot in struct counter_block, others have -1. */"
	print "static const struct api_name {"
	print "\tconst char *symbol;"
	print "\tconst char *base;"
	print "\tconst char *role; /* count, time, op or hook */"
	print "\tint slot;"
	print "} api_names[API_NAMES] = {"
	for (n = 1; n <= rows; n++)
		print "\t{ \"" symbol[n] "\", \"" base[n] "\", \"" role[n] "\", " slot[n] " },"
	print "};"
	print ""
	print "#endif"
}

BEGIN {
	rows = 0
	slots = 0
	failed = 0
}

/^[ \t]*(#|$)/ {
	next
}

{
	if (split($0, field, "|") != 7)
		fail("a row has seven columns")
	read_row(field)
}

END {
	if (failed)
		exit 1
	if (make == "wrappers")
		make_wrappers()
	else if (make == "nop")
		make_nop()
	else if (make == "table")
		make_table()
	else if (make == "map")
		make_map()
	else if (make == "names")
		make_names()
	else {
		print "genwrap.awk: make is wrappers, nop, table, map or names" > "/dev/stderr"
		exit 1
	}
}
