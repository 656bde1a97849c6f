# SPDX-License-Identifier: Apache-2.0
#
# Makes C from exports.tbl:
#   awk -v want=header -f entries.awk exports.tbl    prototypes of what implements
#   awk -v want=source -f entries.awk exports.tbl    the exported functions and
#                                                    the look-up table
#   awk -v want=map -v newest=12040 ...              a version script for a driver
#                                                    that knows nothing newer

function trim(text)
{
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	return text
}

function fail(text)
{
	printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"
	failed = 1
	exit 1
}

# The argument list of the call behind an export.
function arguments(params, variant, extra,    n, part, i, name, list, stream)
{
	stream = variant == "-" ? "CU_STREAM_LEGACY" : "CU_STREAM_PER_THREAD"
	list = ""
	n = params == "void" ? 0 : split(params, part, ",")
	for (i = 1; i <= n; i++) {
		name = part[i]
		sub(/^.*[^A-Za-z0-9_]/, "", name)
		if (part[i] ~ /CUstream [A-Za-z_]+$/)
			name = "stream_or(" name ", " stream ")"
		list = list (i > 1 ? ", " : "") name
	}
	if (extra)
		list = list (n ? ", " : "") stream
	return list
}

function needs(letters,    text)
{
	text = "NEED_NOTHING"
	if (letters ~ /i/)
		text = "NEED_INIT"
	if (letters ~ /c/)
		text = "NEED_CONTEXT"
	if (letters ~ /u/)
		text = text " | NEED_NO_CAPTURE"
	return text
}

function emit_source(symbol, variant, need, impl, extra, params)
{
	if (params == "-") {
		printf "CUresult %s(void);\n", symbol
		params = "void"
	}
	printf "CUresult %s(%s)\n{\n", symbol, params
	if (impl == "-") {
		printf "\treturn entry_unsupported(\"%s\");\n}\n\n", symbol
		return
	}
	printf "\tCUresult refused = entry_check(\"%s\", %s);\n\n", symbol, needs(need)
	printf "\treturn refused ? refused : %s(%s);\n}\n\n", impl,
		arguments(params, variant, extra)
}

BEGIN {
	FS = "|"
	rows = 0
	failed = 0
	print "/* SPDX-License-Identifier: Apache-2.0 */"
	print "/* Made from exports.tbl by entries.awk. */"
	if (want == "map")
		print "{\n\tglobal: cu[A-Z]*;\n\tlocal:"
	else if (want == "header") {
		print "#ifndef SIM_ENTRIES_H\n#define SIM_ENTRIES_H\n\n#include \"sim.h\"\n"
	} else {
		print "#include \"sim.h\"\n#include \"entries.h\"\n"
		print "#pragma GCC diagnostic ignored \"-Wunused-parameter\""
		print "#pragma GCC visibility push(default)\n"
	}
}

/^#/ || /^[ \t]*$/ { next }

{
	if (NF != 7)
		fail("seven columns wanted, " NF " found")
	symbol = trim($1); base = trim($2); since = trim($3); variant = trim($4)
	need = trim($5); impl = trim($6); params = trim($7)
	if (symbol in seen)
		fail(symbol " stands there twice")
	seen[symbol] = 1
	if (want == "map") {
		if (since != "-" && since + 0 > newest)
			printf "\t\t%s;\n", symbol
		next
	}
	extra = sub(/\+$/, "", impl)
	if (want == "header") {
		if (impl != "-" && variant == "-" && (!(impl in proto) || since + 0 > age[impl])) {
			age[impl] = since + 0
			proto[impl] = (extra ? (params == "void" ? "" : params ", ") \
				"CUstream hStream" : params)
		}
		next
	}
	emit_source(symbol, variant, need, impl, extra, params)
	table[rows++] = sprintf("\t{\"%s\", \"%s\", %d, %s, (void *)%s},", symbol, base,
		since == "-" ? -1 : since, variant == "-" ? "false" : "true", symbol)
}

END {
	if (failed)
		exit 1
	if (want == "map") {
		print "\t\t*;\n};"
		exit
	}
	if (want == "header") {
		for (impl in proto)
			printf "CUresult %s(%s);\n", impl, proto[impl] | "sort"
		close("sort")
		print "\n#endif"
		exit
	}
	print "#pragma GCC visibility pop\n"
	print "const struct lookup_row lookup_rows[] = {"
	for (i = 0; i < rows; i++)
		print table[i]
	printf "};\n\nconst unsigned lookup_row_count = %d;\n", rows
}
