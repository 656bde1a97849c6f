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

# Where a clause stands in its column; 0: it is none.
function place_of(clause)
{
	if (clause ~ /^swap: [A-Za-z_][A-Za-z0-9_]*$/)
		return 1
	if (clause ~ /^guard: [a-z][a-z0-9_]*\(.*\)$/)
		return 2
	if (clause ~ /^room: [a-z][a-z0-9_]*\(.*\)$/)
		return 3
	if (clause ~ /^weigh: (code|stream|graph|setting)(\([A-Za-z_][A-Za-z0-9_]*\))?$/ ||
	    clause == "weigh: context")
		return 4
	if (clause == "retry")
		return 5
	if (clause == "sync")
		return 6
	if (clause == "-" || clause ~ /^(after|around|defer): [a-z][a-z0-9_]*\(.*\)$/)
		return 7
	return 0
}

# "swap: p; retry; after: f(p)" -> clause[n, 1] "swap: p", clause[n, 5] "retry", ...
function read_clauses(n, text,    count, part, i, place, before)
{
	before = 0
	for (i = 1; i <= 7; i++)
		clause[n, i] = ""
	count = split(text, part, "; ")
	for (i = 1; i <= count; i++) {
		place = place_of(part[i])
		if (!place)
			fail("not a hook: " part[i])
		if (place <= before)
			fail("out of place: " part[i])
		before = place
		clause[n, place] = part[i]
	}
	swapped[n] = substr(clause[n, 1], length("swap: ") + 1)
	guard[n] = clause[n, 2]
	room[n] = clause[n, 3]
	read_weigh(n, substr(clause[n, 4], length("weigh: ") + 1))
	retry[n] = clause[n, 5] != ""
	sync[n] = clause[n, 6] != ""
	hook[n] = clause[n, 7] == "" ? "-" : clause[n, 7]
}

# "code(f)" -> weighed[n] "WEIGHED_CODE", first[n] "f": only where f is used for the first time.
function read_weigh(n, text,    open)
{
	open = index(text, "(")
	first[n] = open ? substr(text, open + 1, length(text) - open - 1) : ""
	if (open)
		text = substr(text, 1, open - 1)
	weighed[n] = text == "" ? "" : "WEIGHED_" toupper(text)
}

# How the hook is called: "", "after", "around" or "defer".
function manner(n)
{
	return hook[n] == "-" ? "" : substr(hook[n], 1, index(hook[n], ":") - 1)
}

function refuse_clause(n, what)
{
	fail("role " role[n] " has no use for " what)
}

function check_clauses(n,    records)
{
	records = role[n] == "op" || role[n] == "hook"
	if (records && hook[n] == "-")
		fail("role " role[n] " needs a hook")
	if (role[n] == "time" && manner(n) == "around")
		refuse_clause(n, "an around hook")
	if (role[n] != "hook" && room[n] != "")
		refuse_clause(n, "room")
	if (room[n] != "" && (manner(n) == "around" || manner(n) == "defer"))
		fail("what is done ahead of the driver must not be refused behind it")
	if (role[n] != "hook" && manner(n) == "defer")
		refuse_clause(n, "a defer hook")
	if (!records && guard[n] != "")
		refuse_clause(n, "a guard")
	if (!records && sync[n])
		refuse_clause(n, "sync")
	if (retry[n] && (manner(n) == "around" || manner(n) == "defer"))
		fail("what is done ahead of the driver cannot be tried again")
	check_parameter(n, swapped[n])
	check_parameter(n, first[n])
}

function check_parameter(n, name)
{
	if (name != "" && index(", " arguments[n] ", ", ", " name ", ") == 0)
		fail("not a parameter: " name)
}

function read_row(column,    n)
{
	n = ++rows
	symbol[n] = trim(column[1])
	base[n] = trim(column[2])
	since[n] = trim(column[3])
	variant[n] = trim(column[4])
	role[n] = trim(column[5])
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
	line_of[symbol[n]] = FNR
	arguments[n] = argument_names(parameters[n])
	read_clauses(n, trim(column[6]))
	check_clauses(n)
	slot[n] = -1
	if (role[n] == "count" || role[n] == "time")
		slot[n] = slots++
}

function pfn(n)
{
	return "PFN_" base[n] "_v" since[n] (variant[n] == "-" ? "" : "_" variant[n])
}

# "after: f(p)" -> "hook_f_suffix(&call, p)", streams bound to what 0 means in this variant.
function hook_call(n, text, suffix,    open, rest)
{
	sub(/^[a-z]+: /, "", text)
	gsub(/STREAM\(/, (variant[n] == "-" ? "STREAM_OF_LEGACY(" : "STREAM_OF_THREAD("), text)
	open = index(text, "(")
	rest = substr(text, open + 1)
	return "hook_" substr(text, 1, open - 1) suffix "(&call" (rest == ")" ? "" : ", ") rest
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

# The program's call: "a, b" with what it swaps.
function forward_program(n,    names)
{
	names = ", " arguments[n] ","
	if (swapped[n] != "")
		sub(", " swapped[n] ",", ", guard_swap(" swapped[n] "),", names)
	return "REAL(next, " symbol[n] ")(" substr(names, 3, length(names) - 3) ")"
}

function open_wrapper(n)
{
	print ""
	print "EXPORT " signature(n)
	print "{"
}

# What of an around or a defer hook comes behind the driver.
function after_of(n)
{
	return manner(n) == "around" || manner(n) == "defer" ? "_after" : ""
}

# The guard has the call refused; it is recorded as if the driver had done it.
function write_guard(n)
{
	print "\tif (guard_is_needed() && " hook_call(n, guard[n], "") ") {"
	print "\t\tcall_returned(&call, CUDA_ERROR_INVALID_VALUE);"
	print "\t\t" hook_call(n, hook[n], after_of(n)) ";"
	print "\t\treturn guard_end(&call);"
	print "\t}"
}

function write_defer(n)
{
	print "\tif (deferral_is_on() && " hook_call(n, hook[n], "_defer") ")"
	print "\t\treturn call_end(&call);"
	print "\tcall.is_forwarded = deferral_forward();"
}

# Whether the call gives a device work whose times CUPTI tells: no clause, it is in the name.
function has_times(n)
{
	return base[n] ~ /^cu(Memcpy|Memset|Launch(Cooperative|Grid|Kernel|$)|GraphLaunch)/
}

function write_driver(n, text, indent)
{
	if (!has_times(n)) {
		print indent text
		return
	}
	print indent "if (gpu_times_are_on()) {"
	print indent "\tgpu_times_push(&call);"
	print indent "\t" text
	print indent "\tgpu_times_pop();"
	print indent "} else {"
	print indent "\t" text
	print indent "}"
}

# The driver's call, unless it is refused.
function write_call(n, timed, indent,    text)
{
	text = "call_returned" timed "(&call, " forward_program(n) ");"
	if (room[n] == "") {
		write_driver(n, text, indent)
		return
	}
	print indent "if (!room_is_watched()) {"
	write_driver(n, text, indent "\t")
	print indent "} else if (" hook_call(n, room[n], "") ") {"
	write_driver(n, text, indent "\t")
	print indent "\thook_room_leave(&call);"
	print indent "}"
}

# The driver's call and what comes of it; where it may be tried again, in a loop.
function write_attempt(n, timed,    indent)
{
	indent = retry[n] ? "\t\t" : "\t"
	if (retry[n])
		print "\tdo {"
	write_call(n, timed, indent)
	if (retry[n])
		print indent "oom_mark(&call);"
	if (hook[n] != "-")
		print indent hook_call(n, hook[n], after_of(n)) ";"
	if (retry[n])
		print "\t} while (oom_retry" timed "(&call));"
}

# What the driver takes for itself: ahead of its call ...
function write_weigh(n)
{
	if (first[n] != "")
		print "\treading_before_first(&call, " weighed[n] ", ADDR(" first[n] "));"
	else if (weighed[n] != "")
		print "\treading_before(&call, " weighed[n] ");"
}

# ... and behind it, when the call itself is told.
function write_weigh_again(n)
{
	if (weighed[n] != "")
		print "\treading_after(&call);"
}

# Whether a reading of our own accord may follow: memory was taken or given back, or waited for.
function is_quiet(n)
{
	return sync[n] || hook[n] ~ /: context_synchronize\(/ ||
		(role[n] == "hook" && hook[n] ~ /: (memory|array|vmm|module)_/)
}

function write_readings(n)
{
	write_weigh_again(n)
	if (is_quiet(n))
		print "\treading_quiet(&call);"
	if (retry[n])
		print "\treading_out_of_memory(&call);"
}

function write_recorded(n,    way)
{
	way = manner(n)
	print "\tstruct call call;"
	print ""
	print "\tif (!call_begin(&call, API_" symbol[n] ", CALLER))"
	print "\t\treturn " forward(n, "driver") ";"
	if (guard[n] != "")
		write_guard(n)
	if (way == "defer")
		write_defer(n)
	write_weigh(n)
	if (way == "around" || way == "defer")
		print "\t" hook_call(n, hook[n], "_before") ";"
	write_attempt(n, "")
	if (way == "defer")
		print "\tdeferral_returned(call.is_forwarded);"
	if (sync[n])
		print "\tdeferral_synchronized(&call);"
	write_readings(n)
	print "\treturn call_end(&call);"
}

function write_counted(n,    timed)
{
	timed = (role[n] == "time") ? "_timed" : "_counted"
	print "\tstruct call call;"
	print ""
	print "\tif (!call_begin" timed "(&call, API_" symbol[n] ", CALLER))"
	print "\t\treturn " forward(n, "driver") ";"
	write_weigh(n)
	if (manner(n) == "around")
		print "\t" hook_call(n, hook[n], "_before") ";"
	write_attempt(n, timed)
	if (weighed[n] == "") {
		print "\treturn call_end" timed "(&call, " slot[n] ");"
		return
	}
	print "\tcall_count" timed "(&call, " slot[n] ");"
	write_weigh_again(n)
	print "\treturn call_close(&call);"
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
		if (hook[n] ~ /^after: entry_lookup/) {
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
	print ""
	print "const uint16_t api_with_times[API_WITH_TIMES] = {"
	for (n = 1; n <= rows; n++)
		if (has_times(n))
			print "\tAPI_" symbol[n] ","
	print "};"
}

function count_times(    n, count)
{
	count = 0
	for (n = 1; n <= rows; n++)
		count += has_times(n)
	return count
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
	print "enum { SLOT_COUNT = " slots ", API_WITH_TIMES = " count_times() " };"
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
	print "extern const uint16_t api_with_times[API_WITH_TIMES];"
	print ""
	print "#endif"
}

# The anonymous node matters: with a named one the loader passes our dlsym over.
function make_map(    n)
{
	print "/* Made by genwrap.awk from driver.tbl. */"
	print "{"
	print "global:"
	print "\tdlopen;"
	print "\tdlsym;"
	print "\tdlvsym;"
	print "\tInitializeInjectionNvtx2;"
	print "\tcuptiActivityRegisterCallbacks;"
	print "\tcuptiSubscribe;"
	print "\tcuptiSubscribe_v2;"
	print "\tcustody_engine;"
	print "\tcustody_injected;"
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
