#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a report makes of readings: the ledger, and the black box of out of memory."""
import collections
import json
import sqlite3
import unittest

import test_report
from test_report import custody

MIB = 1 << 20
START = 5_000_000_000
BANDS = ("device", "pitch", "pool", "vmm", "array", "managed", "pending", "rounding",
         "pools_cached", "graphs", "contexts", "code", "other_driver", "other_recorded",
         "other_processes", "contexts_and_others")


def reading(number, at, used, process=1, on=1, moment="quiet", **bands):
    """SQL for a reading of so many MiB in use; bands in MiB, kinds as (live, pending, held)."""
    kinds = {kind: bands.pop(kind) for kind in list(bands) if isinstance(bands[kind], tuple)}
    columns = {"held": 0, "pool": 0, "graph": 0, "context": 500, "code": 0, "driver": 0,
               "recorded": 0, "foreign": 100}
    columns.update(bands)
    names = "".join(f", {name}_bytes" for name in columns)
    values = "".join(", NULL" if value is None else f", {value * MIB}"
                     for value in columns.values())
    sql = (f"INSERT INTO reading(id, process_id, device_id, at_ns, moment, free_bytes,"
           f" total_bytes{names}) VALUES ({number}, {process}, {on}, {START + at},"
           f" '{moment}', {(9000 - used) * MIB}, {9000 * MIB}{values});")
    for kind, sums in kinds.items():
        sql += (f"INSERT INTO reading_kind VALUES ({number}, '{kind}', "
                + ", ".join(str(part * MIB) for part in sums) + ");")
    return sql


class Case(test_report.Case):
    def ledger(self, name, sql, source="whole"):
        self.trace = self.change(name, sql, source)
        return json.loads(custody("report", "--format=json", self.trace).stdout)["memory"]["ledger"]

    def text(self, **environment):
        text = custody("report", self.trace, **environment).stdout
        return text.split("LEDGER\n")[1].split("\nLEAKS")[0]

    def bands(self, row):
        return {band: row[band + "_bytes"] // MIB for band in BANDS + ("unaccounted", "used")
                if row[band + "_bytes"]}


class Ledger(Case):
    def full(self):
        return reading(1, 100, 1210, held=260, pool=64, graph=32, code=20, driver=10,
                       recorded=200, device=(100, 40, 150), vmm=(80, 0, 80), array=(25, 0, 30)
                       ) + "INSERT INTO reading_kind VALUES (1, 'pool', %d, %d, 0);" % (
                           50 * MIB, 4 * MIB)

    def test_bands_are_told_apart_and_add_up(self):
        rows = self.ledger("full", self.full() + reading(2, 200, 600, moment="exit"))
        highest, last = rows
        self.assertEqual((highest["moment"], highest["reading"]), ("highest", "quiet"))
        self.assertEqual((last["moment"], last["reading"]), ("last", "exit"))
        self.assertEqual(self.bands(highest), {
            "device": 100, "vmm": 80, "array": 25, "pool": 50, "pending": 44, "rounding": 15,
            "pools_cached": 10, "graphs": 32, "contexts": 500, "code": 20, "other_driver": 10,
            "other_recorded": 200, "other_processes": 100, "unaccounted": 24, "used": 1210})
        self.assertEqual(self.bands(last), {"contexts": 500, "other_processes": 100, "used": 600})
        for row in rows:
            self.assertNotIn("external_bytes", row)
            self.assertEqual(sum(row[band + "_bytes"] or 0 for band in BANDS)
                             + row["unaccounted_bytes"], row["used_bytes"])
        self.assertEqual(highest["total_bytes"], 9000 * MIB)

    def test_people_read_the_same(self):
        self.ledger("text", self.full() + reading(2, 200, 600, moment="exit"))
        lines = [" ".join(line.split()) for line in self.text().split("\n")]
        for line in ("in use 1.18 GiB 100 % 600 MiB 100 %", "device 100 MiB 8.3 % - -",
                     "freed, not released yet 44.0 MiB 3.6 % - -",
                     "contexts 500 MiB 41 % 500 MiB 83 %",
                     "other processes 100 MiB 8.3 % 100 MiB 17 %",
                     "unaccounted 24.0 MiB 2.0 % - -"):
            self.assertIn(line, lines)
        self.assertNotIn("managed", self.text())
        self.assertNotIn("NVML", self.text())

    def test_too_much_is_unaccounted_for_as_well(self):
        row = self.ledger("less", reading(1, 100, 560))[0]
        self.assertEqual(row["unaccounted_bytes"], -40 * MIB)
        self.assertIn("unaccounted -40.0 MiB", " ".join(self.text().split()))

    def test_managed_memory_is_what_is_left_up_to_its_size(self):
        for name, used, managed, unaccounted in (("some", 630, 30, 0), ("all", 800, 128, 72),
                                                 ("more", 728, 128, 0), ("none", 590, 0, -10)):
            row = self.ledger("managed-" + name, reading(1, 100, used, managed=(60, 10, 72)))[0]
            self.assertEqual(row["managed_bytes"], managed * MIB, name)
            self.assertEqual(row["unaccounted_bytes"], unaccounted * MIB, name)
            self.assertEqual(row["pending_bytes"], 0)
            self.assertEqual("its size in steps" in " ".join(self.text().split()), managed > 0)

    def test_what_nothing_tells_apart_is_one_band(self):
        row = self.ledger("apart", reading(1, 100, 600, context=None, foreign=600))[0]
        self.assertIsNone(row["contexts_bytes"])
        self.assertIsNone(row["other_processes_bytes"])
        self.assertEqual(row["contexts_and_others_bytes"], 600 * MIB)
        self.assertEqual(row["unaccounted_bytes"], 0)
        self.assertIn("contexts and other processes", self.text())
        self.assertIn("NVML", self.text())

    def test_the_first_of_equal_readings_is_the_highest(self):
        rows = self.ledger("equal", reading(3, 300, 700) + reading(2, 200, 700)
                           + reading(4, 400, 600) + reading(5, 400, 500))
        self.assertEqual([row["at_ns"] - START for row in rows], [200, 400])
        self.assertEqual(rows[1]["used_bytes"], 500 * MIB)

    def test_readings_without_sums_are_no_ledger(self):
        rows = self.ledger("raw", reading(1, 100, 700) + reading(2, 200, 900)
                           + "UPDATE reading SET held_bytes = NULL WHERE id = 2")
        self.assertEqual({row["used_bytes"] for row in rows}, {700 * MIB})

    def test_processes_have_a_table_each(self):
        rows = self.ledger("several", "".join(
            f"INSERT INTO process(id, pid, exec_serial, executable, start_ns) VALUES"
            f" ({i}, {i * 1000}, 0, '/bin/child', 0);"
            f"INSERT INTO device(id, process_id, ordinal) VALUES ({i}, {i}, {i});"
            + reading(i * 10, 100, 600 + i, process=i, on=i) for i in range(2, 15)))
        self.assertEqual(len(rows), 26)
        self.assertEqual((rows[0]["process_id"], rows[0]["device"]), (14, 14))
        text = self.text()
        self.assertIn("in use: device 14, pid 14000", text)
        self.assertEqual(text.count("unaccounted"), 10)
        self.assertNotIn("pid 3000", text)

    def test_no_reading_is_said_in_one_sentence(self):
        self.assertEqual(self.ledger("none-read", ""), [])
        self.assertIn("was not asked", self.text())

    def test_lines_keep_to_the_width(self):
        self.ledger("width", self.full() + reading(2, 200, 600, context=None, moment="exit"))
        for width in (80, 120):
            self.assertLessEqual(max(map(len, self.text(COLUMNS=str(width)).split("\n"))), width)

    def test_a_part_of_the_report_has_it(self):
        trace = self.change("part", reading(1, 100, 700))
        for option, has in (("--memory", True), ("--transfers", False), ("--leaks", False)):
            self.assertEqual("LEDGER" in custody("report", option, trace).stdout, has)


class OutOfMemory(Case):
    FAILURE = ("INSERT INTO failure(id, process_id, origin, api_id, result, bytes, at_ns,"
               " thread_id, context_id) VALUES ({0}, 1, '{1}', 1, {2}, {3}, {4}, 1, 1);")

    def failure(self, number, at, origin="program", result=2, size=777 * MIB):
        return self.FAILURE.format(number, origin, result, size, START + at)

    def boxes(self, name, sql, source="partial"):
        self.trace = self.change(name, sql, source)
        return json.loads(custody("report", "--format=json", self.trace).stdout)

    def true_holders(self, at):
        """What was live, and the twenty largest places and kinds, those of one place joined."""
        database = sqlite3.connect(self.trace)
        rows = database.execute(
            "SELECT caller, sum(bytes) FROM allocation WHERE kind <> 'pinned'"
            " AND alloc_ns + alloc_duration_ns <= ?1 AND (released_ns IS NULL OR released_ns > ?1)"
            " GROUP BY kind, caller ORDER BY 2 DESC", (START + at,)).fetchall()
        database.close()
        places = collections.Counter()
        for caller, size in rows[:20]:
            places[caller] += size
        return sum(size for _, size in rows), sorted(places.values(), reverse=True)

    def test_an_unfinished_trace_has_its_box_from_rows(self):
        at = 4_000_000
        told = self.boxes("box", self.failure(900, at + 5000, "program", 700)
                          + self.failure(901, at))
        self.assertEqual(len(told["oom"]), 1)
        box = told["oom"][0]
        self.assertEqual((box["api"], box["requested_bytes"], box["at_ns"], box["origin"]),
                         ("cuMemAlloc_v2", 777 * MIB, START + at, "program"))
        live, true = self.true_holders(at)
        self.assertEqual(box["live_bytes"], live)
        self.assertIsNone(box["free_bytes"])
        self.assertIsNone(box["largest_free_bytes"])
        self.assertEqual([row["bytes"] for row in told["oom_holders"]], true)
        text = custody("report", self.trace).stdout.split("OUT OF MEMORY\n")[1]
        self.assertIn("cuMemAlloc_v2 of 777 MiB", text)
        self.assertIn("it could not be asked", text)
        self.assertNotIn("unknown", text.split("holders when memory ran out")[0])

    def test_the_reading_of_the_moment_is_in_it(self):
        at = 4_000_000
        told = self.boxes("asked", self.failure(901, at) + reading(
            1, at + 50, 8990, moment="oom") + "UPDATE reading SET thread_id = 1")
        self.assertEqual(told["oom"][0]["free_bytes"], 10 * MIB)
        self.assertIn("10.0 MiB free of 8.79 GiB", custody("report", self.trace).stdout)

    def test_what_was_refused_on_purpose_is_told_apart(self):
        told = self.boxes("limit", self.failure(901, 1000, "fail-nth")
                          + self.failure(902, 2000, "custody") + self.failure(903, 3000, "limit"))
        self.assertEqual([box["origin"] for box in told["oom"]], ["limit"])
        self.assertIn("refused by --limit",
                      " ".join(custody("report", self.trace).stdout.split()))

    def test_no_failure_makes_no_box(self):
        told = json.loads(custody("report", "--format=json", self.path("whole")).stdout)
        self.assertEqual((told["oom"], told["oom_holders"]), ([], []))
        self.assertNotIn("OUT OF MEMORY", custody("report", self.path("whole")).stdout)


class Older(Case):
    """A trace of before there were readings has none of their tables."""

    def test_it_reads_as_it_did(self):
        drop = "".join(f"DROP TABLE {name};" for name in (
            "reading_kind", "overhead", "device_sample", "oom_holder", "oom", "reading"))
        for source in ("whole", "partial"):
            rows = self.ledger("old-" + source, drop, source)
            self.assertEqual(rows, [])
            self.assertIn("was not asked", self.text())


if __name__ == "__main__":
    unittest.main(verbosity=1)
