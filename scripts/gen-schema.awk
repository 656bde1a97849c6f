# SPDX-License-Identifier: Apache-2.0
#
# Turns schema.sql and schema_end.sql into two C strings, without comments.
#
#	awk -f gen-schema.awk schema.sql schema_end.sql > store_schema.c

function begin(name)
{
	if (open)
		print ";"
	print "\nconst char " name "[] ="
	open = 1
}

BEGIN {
	print "/* Made by gen-schema.awk from schema.sql and schema_end.sql: change those. */"
	print "#include \"report/store.h\""
}

FNR == 1 {
	file++
	begin(file == 1 ? "store_schema" : "store_schema_end")
}

{
	sub(/--.*/, "")
	sub(/[ \t]+$/, "")
	gsub(/\\/, "\\\\")
	gsub(/"/, "\\\"")
	gsub(/\t/, " ")
	if ($0 != "")
		print "\t\"" $0 "\\n\""
}

END { print ";" }
