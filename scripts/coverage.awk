# SPDX-License-Identifier: Apache-2.0
#
# coverage.awk - docs/coverage.md, from what custody wraps and what a driver exports.
#
#	awk -f coverage.awk coverage.tbl driver.tbl exports.tbl
#
# Says with status 1 what does not fit together: an export that is neither
# wrapped nor left out with a reason, a row of no export, a function that must
# mean something and is only counted, a hook that nothing is said about.

function complain(what)
{
	print "coverage: " what > "/dev/stderr"
	failed = 1
}

function trim(text)
{
	sub(/^[ \t]+/, "", text)
	sub(/[ \t]+$/, "", text)
	return text
}

function read_words(count, part,    i, n, name)
{
	if (part[1] == "means")
		means[part[2]] = part[3]
	else if (part[1] == "left") {
		lefts++
		left_names[lefts] = part[2]
		left_title[lefts] = part[3]
		left_why[lefts] = part[4]
	} else if (part[1] == "asks" || part[1] == "must") {
		n = split(part[2], name, " ")
		for (i = 1; i <= n; i++)
			if (part[1] == "asks")
				asks[name[i]] = 1
			else
				must[name[i]] = 1
		if (part[1] == "asks") {
			gsub(/ /, "`, `", part[2])
			why_asks[++asking] = "`" part[2] "`: " part[3]
		}
	} else
		complain("coverage.tbl: not a row: " part[1])
}

# The function that a hook's clause calls; "" where there is none.
function hook_of(clauses,    n, i, part, hook)
{
	n = split(clauses, part, "; ")
	hook = ""
	for (i = 1; i <= n; i++)
		if (part[i] ~ /^(after|around|defer): /) {
			hook = part[i]
			sub(/^[a-z]+: /, "", hook)
			sub(/\(.*/, "", hook)
		}
	return hook
}

function read_function(part,    base, hook)
{
	base = part[2]
	hook = hook_of(part[6])
	wrapped[part[1]] = base
	if (!(base in family_of)) {
		family_of[base] = families
		bases_of[families]++
		base_at[families, bases_of[families]] = base
		level[base] = "counted"
	}
	symbols_of[base]++
	symbols_in[families]++
	if (part[5] != "count" || hook != "" || part[6] ~ /(^|; )weigh/)
		level[base] = "meaning"
	role[base] = part[5]
	if (hook != "")
		hooked[base] = hook
	if (part[6] ~ /(^|; )defer: /)
		deferred[base] = 1
	if (part[6] ~ /(^|; )retry(;|$)/)
		retried[base] = 1
	if (part[6] ~ /(^|; )weigh/)
		weighed[base] = 1
	if (part[6] ~ /(^|; )room: /)
		limited[base] = 1
	if (part[6] ~ /(^|; )guard: /)
		guarded[base] = 1
	if (part[6] ~ /(^|; )sync(;|$)/)
		synced[base] = 1
}

# The words for the longest beginning of this hook's name that has any.
function words_for(hook,    head)
{
	head = hook
	while (head != "" && !(head in means))
		if (!sub(/_[^_]*$/, "", head))
			head = ""
	if (head != "")
		return means[head]
	complain("nothing is said about the hook " hook)
	return "?"
}

function describe(base,    words)
{
	if (base in hooked)
		words = words_for(hooked[base])
	else if (role[base] == "time")
		words = "calls are counted and timed, failures kept"
	else if (base in asks)
		words = "calls are counted, failures kept"
	else
		words = "a question or a setting: calls are counted, failures kept"
	if (base in guarded)
		words = words "; refused where it names a block that was freed"
	if (base in deferred)
		words = words "; the driver's part may be put off"
	if (base in synced)
		words = words "; what is pending may go"
	if (base in limited)
		words = words "; refused beyond a limit that was asked for"
	if (base in weighed)
		words = words "; the device's memory is read before and after it"
	if (base in retried)
		words = words "; tried again where memory has run out"
	return words
}

function matches(name, patterns,    n, i, pattern)
{
	n = split(patterns, pattern, " ")
	for (i = 1; i <= n; i++) {
		if (pattern[i] == name)
			return 1
		if (pattern[i] ~ /\*$/ && index(name, substr(pattern[i], 1,
		    length(pattern[i]) - 1)) == 1)
			return 1
	}
	return 0
}

function place_left(name,    i, places)
{
	places = 0
	for (i = 1; i <= lefts; i++)
		if (matches(name, left_names[i])) {
			places++
			left_count[i]++
			left_list[i] = left_list[i] (left_list[i] == "" ? "" : ", ") "`" name "`"
		}
	if (places != 1)
		complain(name " is exported by the driver and " (places ? \
			 "left out twice" : "neither in driver.tbl nor left out with a reason"))
	passed++
}

function check_bases(    base)
{
	for (base in must)
		if (!(base in level))
			complain(base " holds or moves memory and is not wrapped")
		else if (level[base] == "counted" && !(base in asks))
			complain(base " holds or moves memory and is only counted")
	for (base in asks)
		if (level[base] != "counted")
			complain("coverage.tbl: " base " is not only counted any more")
}

function print_totals(    i, j, meaning, counted, all, all_symbols, all_meaning)
{
	print ""
	print "| family | functions | with meaning | counted | symbols |"
	print "|---|--:|--:|--:|--:|"
	for (i = 1; i <= families; i++) {
		meaning = counted = 0
		for (j = 1; j <= bases_of[i]; j++)
			if (level[base_at[i, j]] == "meaning")
				meaning++
			else
				counted++
		print "| " family[i] " | " bases_of[i] " | " meaning " | " counted " | " \
			symbols_in[i] " |"
		all += bases_of[i]
		all_meaning += meaning
		all_symbols += symbols_in[i]
	}
	print "| **wrapped** | **" all "** | **" all_meaning "** | **" all - all_meaning \
		"** | **" all_symbols "** |"
	print "| passed through | | | | " passed " |"
	print "| **exported** | | | | **" all_symbols + passed "** |"
}

function print_families(    i, j, base)
{
	for (i = 1; i <= families; i++) {
		print ""
		print "### " family[i]
		print ""
		print "| function | symbols | | what a trace has of it |"
		print "|---|--:|---|---|"
		for (j = 1; j <= bases_of[i]; j++) {
			base = base_at[i, j]
			print "| `" base "` | " symbols_of[base] " | " level[base] " | " \
				describe(base) " |"
		}
	}
}

function print_left(    i)
{
	for (i = 1; i <= lefts; i++) {
		print ""
		print "### " left_title[i] ": " left_count[i] + 0
		print ""
		print left_why[i]
		print ""
		print left_list[i]
	}
}

function print_all(    i)
{
	print "# What custody covers of the CUDA driver"
	print ""
	print "<!-- Made by scripts/coverage; a test compares it. -->"
	print ""
	print "Every function that a driver of CUDA 13.0 exports, by what becomes of a call to it."
	print "A function is known by the name that `cuGetProcAddress` uses; its symbols are its"
	print "versions and the twins whose default stream is the thread's own."
	print ""
	print "- **meaning**: the call is recorded as what it means for memory, or with what it is"
	print "  about, or its answer is kept, or what the driver takes for it is weighed; of"
	print "  launches the time"
	print "- **counted**: how often it was called, and each failure"
	print "- **passed through**: the program has the driver's own function, for a reason that"
	print "  stands below; a trace names it in `uncovered` when a look-up hands it out"
	print ""
	print "A function of a newer driver that custody does not know is passed through, too, and"
	print "named in the trace."
	print_totals()
	print ""
	print "Only counted, though memory depends on them:"
	print ""
	for (i = 1; i <= asking; i++)
		print "- " why_asks[i]
	print ""
	print "## Wrapped"
	print_families()
	print ""
	print "## Passed through on purpose"
	print_left()
	print ""
	print "## Past every function"
	print ""
	print "The CUDA runtime and NVIDIA's libraries get tables of private functions from"
	print "`cuGetExportTable`. They are handed out as they are and named in `uncovered`; what"
	print "is called through them is in no trace. Nor is what kernels do by themselves: reading"
	print "and writing page-locked or managed memory, `malloc` in a kernel, graphs that a"
	print "kernel launches."
}

FNR == 1 {
	input++
	was_blank = 0
}

input == 2 && /^# [A-Z]/ && was_blank {
	family[++families] = substr($0, 3)
}

{
	was_blank = /^$/
}

/^[ \t]*(#|$)/ {
	next
}

{
	count = split($0, field, "|")
	for (i = 1; i <= count; i++)
		field[i] = trim(field[i])
}

input == 1 { read_words(count, field) }
input == 2 { read_function(field) }
input == 3 {
	exported[field[1]] = 1
	if (!(field[1] in wrapped))
		place_left(field[1])
}

END {
	for (name in wrapped)
		if (!(name in exported))
			complain(name " is wrapped, but the list of exports has no such name")
	check_bases()
	print_all()
	exit failed
}
