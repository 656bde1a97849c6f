# SPDX-License-Identifier: Apache-2.0
#
# A table of docs/ (founding.tbl or reports.tbl) as Markdown (form=markdown) or as a
# section of a man page (form=mdoc).  Stops at a row that is not whole.

function trim(text)
{
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	return text
}

function complain(text)
{
	printf "%s:%d: %s\n", FILENAME, FNR, text >"/dev/stderr"
	failed = 1
	exit 1
}

# Names one by one as `name`, and what is behind a - as it is.
function quoted(names,    list, count, i, text)
{
	if (names ~ /^-/)
		return trim(substr(names, 2))
	count = split(names, list, /[ \t]+/)
	for (i = 1; i <= count; i++)
		text = text (i > 1 ? " " : "") "`" list[i] "`"
	return text
}

function mdoc_functions(names,    list, count, i)
{
	if (names ~ /^-/) {
		print mdoc_text(trim(substr(names, 2)))
		return
	}
	count = split(names, list, /[ \t]+/)
	for (i = 1; i <= count; i++)
		printf ".Fn %s%s\n", list[i], i < count ? " ," : ""
}

function mdoc_text(text)
{
	gsub(/\\/, "\\e", text)
	sub(/^[.']/, "\\\\\\&&", text)
	return text
}

# The functions' twins in the words of the documents, as one argument.
function mdoc_tag(text)
{
	text = mdoc_text(text)
	gsub(/"/, "\\(dq", text)
	return "\"" text "\""
}

function heading(text)
{
	sub(/^# ---- /, "", text)
	if (form == "markdown") {
		printf "\n### %s%s\n\n", toupper(substr(text, 1, 1)), substr(text, 2)
		print "| documented | documents | libcustody | tests |"
		print "| --- | --- | --- | --- |"
	} else {
		if (headings++)
			print ".El"
		printf ".Ss %s%s\n", toupper(substr(text, 1, 1)), substr(text, 2)
		print ".Bl -tag -width 4n"
	}
}

BEGIN {
	FS = "|"
	headings = 0
	rows = 0
	failed = 0
	if (kind == "reports") {
		print "| | reports | what went wrong | tests |"
		print "| ---: | --- | --- | --- |"
	}
}

/^# ---- / { heading($0); next }
/^#/ || /^[ \t]*$/ { next }

NF != 4 { complain("a row has four columns, this one " NF) }

{
	rows++
	for (i = 1; i <= 4; i++)
		field[i] = trim($i)
	if (kind == "reports") {
		if (field[1] != rows)
			complain("row " rows " is numbered " field[1])
		printf "| %s | %s | %s | %s |\n", field[1], field[2], field[3], quoted(field[4])
	} else if (form == "markdown") {
		printf "| `%s` | %s | %s | %s |\n", field[2], field[1], quoted(field[3]), \
			quoted(field[4])
	} else {
		printf ".It Li %s\n", mdoc_tag(field[2])
		mdoc_functions(field[3])
		if (field[4] != "" && field[4] !~ /^-/) {
			sub(/[ \t].*/, "", field[4])
			printf ".br\n.Pq test %s\n", field[4]
		}
	}
}

END {
	if (!failed && form == "mdoc" && headings)
		print ".El"
}
