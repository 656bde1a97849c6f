# SPDX-License-Identifier: Apache-2.0
"""Figures of a trace, asked for with `custody sql`, beside those of an independent count."""
import glob
import json
import os
import re
import struct
import subprocess

ROW = re.compile(r"(\w+)=(-?\d+(?:\|-?\d+)*)")  # not the line that names the column
COUNT = struct.Struct("40sQQQ")  # struct count of count_file.h


class QueryFailed(Exception):
    pass


class Figure:
    def __init__(self, source, what, unit, ours, theirs):
        self.source, self.what, self.unit = source, what, unit
        self.ours, self.theirs = ours, theirs

    def is_equal(self):
        return self.ours == self.theirs

    def __str__(self):
        return f"{self.what}, {self.unit}: custody {self.ours}, {self.source} {self.theirs}"

    def row(self):
        verdict = "equal" if self.is_equal() else "DIFFERENT"
        return "\t".join([self.source, self.what, self.unit, str(self.ours), str(self.theirs),
                          verdict])


class Trace:
    def __init__(self, custody, path, policy="immediate"):
        self.custody, self.path, self.policy = custody, path, policy

    def lines(self, query):
        """The rows of a query whose only column is text."""
        done = subprocess.run([self.custody, "sql", self.path, query], capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise QueryFailed(f"custody sql: {done.stderr.strip()}")
        return done.stdout.splitlines()

    def numbers(self, query):
        """Rows of one text column 'name=n|n...', as {name: [n, ...]}."""
        rows = {}
        for line in self.lines(query):
            match = ROW.fullmatch(line.strip())
            if match:
                rows[match[1]] = [int(value) for value in match[2].split("|")]
        return rows

    def complaints(self):
        """What must hold for every trace."""
        found = []
        if self.numbers("SELECT 'v='||value FROM meta WHERE key='complete'").get("v") != [1]:
            found.append("the trace is not complete")
        lost = self.numbers("SELECT 'v='||(COALESCE((SELECT SUM(count) FROM gap),0)"
                            "+COALESCE((SELECT SUM(lost_records) FROM process),0))")
        if lost.get("v") != [0]:
            found.append(f"records were lost: {lost.get('v')}")
        for line in self.lines("SELECT DISTINCT name FROM uncovered ORDER BY 1"):
            if COUNTED.match(line.strip()):
                found.append(f"{line.strip()} was handed out as the driver has it")
        return found

    def account(self):
        """What it says of frees and of memory."""
        return {name: values[0] for name, values in self.numbers(ACCOUNT).items()}


# pending_limit: twice a fifth of the memory, which a block of any size may exceed.
ACCOUNT = """
    SELECT 'frees='||COUNT(*) FROM allocation WHERE free_requested_ns IS NOT NULL
    UNION ALL SELECT 'deferred='||COUNT(free_waited_ns) FROM allocation
    UNION ALL SELECT 'in_frees_us='||(COALESCE(SUM(free_duration_ns), 0)/1000) FROM allocation
    UNION ALL SELECT 'flushes='||COUNT(*) FROM flush
    UNION ALL SELECT 'peak='||COALESCE(MAX(bytes), 0) FROM peak
    UNION ALL SELECT 'held_peak='||COALESCE(MAX(held_peak_bytes), 0) FROM peak
    UNION ALL SELECT 'pending_peak='||COALESCE(MAX(pending_peak_bytes), 0) FROM peak
    UNION ALL SELECT 'pending_limit='||CAST(0.4 * COALESCE((SELECT MAX(total_bytes) FROM device), 0)
        + COALESCE(MAX(bytes), 0) AS INTEGER) FROM allocation
    UNION ALL SELECT 'ran_out='||COUNT(*) FROM failure WHERE origin = 'custody' AND result = 2
    UNION ALL SELECT 'cured='||COUNT(*) FROM failure AS c
        WHERE origin = 'custody' AND result = 2 AND NOT EXISTS
        (SELECT 1 FROM failure AS p WHERE p.origin = 'program' AND p.result = 2
         AND p.api_id = c.api_id AND p.thread_id = c.thread_id AND p.bytes = c.bytes)
    UNION ALL SELECT 'findings='||COUNT(*) FROM finding"""


# ---------------------------------------------------------------- the counters

# CUPTI counts every function; these move or hold memory, launch or wait.  The
# rest are queries, which custody may make too.
COUNTED = re.compile(r"cu(Mem(Alloc|Free|Host(Alloc|Reg|Unreg)|Create|Release|Map|Unmap|cpy|set"
                     r"|Prefetch)|Array(Create|Destroy)|Launch|Graph(Launch|Instantiate)"
                     r"|Stream(Synchronize|BeginCapture|EndCapture|Create|Destroy)"
                     r"|Event(Record|Create|Destroy|Synchronize)|ModuleLoad|LibraryLoad)")


def read_counts(directory):
    """The sum of all processes' files."""
    total = {}
    paths = [path for name in ("count", "cupti") for path in
             glob.glob(os.path.join(directory, name + ".*"))]
    for path in paths:
        with open(path, "rb") as file:
            for name, *values in COUNT.iter_unpack(file.read()):
                name = name.rstrip(b"\0").decode("ascii")
                if name:
                    old = total.get(name, [0, 0, 0])
                    total[name] = [a + b for a, b in zip(old, values)]
    return {name: values for name, values in total.items() if values[0] and COUNTED.match(name)}


CALLS = """SELECT api.name||'='||SUM(calls)||'|'||SUM(errors)
           FROM api_call JOIN api ON api.id = api_id GROUP BY api.name"""
BYTES = """SELECT name||'='||SUM(bytes) FROM
           (SELECT api.name AS name, bytes FROM allocation JOIN api ON api.id = api_id
            UNION ALL
            SELECT api.name, bytes FROM transfer JOIN api ON api.id = api_id WHERE result = 0)
           GROUP BY name"""


# What custody calls in place of the program, in a run where frees are put off: the
# attempt that is made again after memory ran out, and of the releases those that
# are never made, because the context or the process ended first.
REPEATED = """SELECT name||'='||COUNT(*) FROM failure JOIN api ON api.id = api_id
              WHERE origin = 'custody' AND name NOT LIKE '%Free%' GROUP BY name"""
NEVER_RELEASED = """SELECT kind||'='||COUNT(*) FROM allocation WHERE free_waited_ns IS NOT NULL
                    AND release_cause IN ('exit', 'context', 'reset') GROUP BY kind"""
REFUSED = """SELECT name||'='||COUNT(*) FROM finding JOIN api ON api.id = api_id GROUP BY name"""

# A block freed by the first may be released by the second.
RELEASES = {"cuMemFree_v2": ("device", "pitch", "managed"), "cuMemFreeHost": ("pinned",),
            "cuArrayDestroy": ("array",)}


def reaching_driver(trace, calls):
    """What an observer beneath the interposer sees of the program's calls."""
    for name, (count,) in trace.numbers(REPEATED).items():
        calls[name] = [calls[name][0] + count, calls[name][1] + count]
    for name, (count,) in trace.numbers(REFUSED).items():
        calls[name] = [calls[name][0] - count, calls[name][1] - count]
    never = trace.numbers(NEVER_RELEASED)
    for name, kinds in RELEASES.items():
        if name in calls:
            calls[name][0] -= sum(never.get(kind, [0])[0] for kind in kinds)
    return calls


def join_frees(calls):
    """cuMemFreeAsync releases what cuMemFree freed: one count for both."""
    total = [0, 0]
    for name in "cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeAsync_ptsz":
        total = [a + b for a, b in zip(total, calls.pop(name, [0, 0]))]
    calls["cuMemFree and cuMemFreeAsync"] = total
    return calls


def compare_counts(trace, directory, source, is_beneath=False):
    """is_beneath: the observer stands between the interposer and the driver."""
    counts, calls, sizes = read_counts(directory), trace.numbers(CALLS), trace.numbers(BYTES)
    found = []
    if is_beneath and trace.policy != "immediate":
        calls = join_frees(reaching_driver(trace, calls))
        sums = join_frees({name: values[:2] for name, values in counts.items()})
        counts = {name: [*values, counts.get(name, [0, 0, 0])[2]] for name, values in sums.items()}
    for name, (count, errors, size) in sorted(counts.items()):
        ours = calls.get(name, [0, 0])
        found.append(Figure(source, name, "calls", ours[0], count))
        if errors or ours[1]:
            found.append(Figure(source, name, "errors", ours[1], errors))
        if size:
            found.append(Figure(source, name, "bytes", sizes.get(name, [0])[0], size))
    return found


# ---------------------------------------------------------------- journals


# When a block is no longer the program's; it may be released later.
GONE = "CASE WHEN free_waited_ns IS NULL THEN released_ns ELSE free_requested_ns END"


def conditions(row):
    """The WHERE clause that a journal row stands for."""
    terms = []
    if "api" in row:
        terms.append(f"api_id = (SELECT id FROM api WHERE name = '{row['api']}')")
    elif row.get("kind", "any") != "any":
        kinds = ",".join(f"'{kind}'" for kind in row["kind"].split("+"))
        terms.append(f"kind IN ({kinds})")
    if row["check"] == "transfer":
        terms.append("result = 0")
    if row["check"] == "failure":
        terms.append("origin = 'program'")
    if row["check"] in ("allocation", "live") and "api" not in row and row["kind"] != "ipc":
        terms.append("parent_id IS NULL")
    if row["check"] == "live":
        terms.append(f"alloc_ns + alloc_duration_ns <= {row['at']}"
                     f" AND ({GONE} IS NULL OR {GONE} > {row['at']})")
    if "at_least" in row:
        terms.append(f"bytes >= {row['at_least']}")
    if "place" in row:
        side, place = row["place"].split()
        terms.append(f"{side}_kind = '{place}'")
    if "caller" in row:
        terms.append("EXISTS (SELECT 1 FROM module WHERE module.process_id = t.process_id"
                     f" AND path LIKE '%{row['caller']}%'"
                     " AND t.caller >= base AND t.caller < base + size)")
    return " AND ".join(terms) or "1"


def name_of(row):
    words = [row["check"], row.get("api", row.get("kind", ""))]
    words += [f"{key} {row[key]}" for key in ("place", "caller", "at_least") if key in row]
    return " ".join(words)


def compare_journal(trace, path):
    if not os.path.exists(path):
        return []
    found = []
    with open(path, encoding="ascii") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row["check"] == "note":
            continue
        table = "allocation" if row["check"] == "live" else row["check"]
        count = "COALESCE(SUM(copies),0)" if table == "transfer" else "COUNT(*)"
        ours = trace.numbers(f"SELECT 'v='||{count}||'|'||COALESCE(SUM(bytes),0) FROM {table} AS t"
                             f" WHERE {conditions(row)}")["v"]
        source = row.get("source", "own journal")
        names = {"count": "calls", "bytes": "bytes refused" if table == "failure" else "bytes"}
        for key, value in zip(("count", "bytes"), ours):
            if key in row and (row[key] or table != "failure"):
                found.append(Figure(source, name_of(row), names[key], value, row[key]))
    return found
