#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""custody merge, on traces that no program made: ids, one clock, sums, refusals.

What the whole must say is worked out here from the rows of the parts, without SQL.
"""
import collections
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import test_report
from test_report import CUSTODY, GENERATOR, SCHEMA, custody

WALL = 1_790_000_000 * 10**9
SECOND = 10**9
HOST_KINDS = ("pinned", "registered", "ipc")


class Case(test_report.Case):
    parts = (("one", 1, "a", "boot-a", 0), ("two", 2, "a", "boot-a", 0),
             ("three", 3, "a", "boot-a", 3 * SECOND), ("four", 4, "b", "boot-b", 9 * SECOND))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, seed, host, boot, later in cls.parts:
            cls.make(name, seed, host, boot, later)
        cls.make("broken", 5, "a", "boot-a", 0, "--incomplete")
        cls.make("deferred", 6, "a", "boot-a", 0, "--policy", "deferred")

    @classmethod
    def make(cls, name, seed, host, boot, later, *options):
        made = subprocess.run([sys.executable, GENERATOR, "--seed", str(seed), *options, SCHEMA,
                               cls.path(name)], check=True, stdout=subprocess.PIPE)
        cls.true[name] = json.loads(made.stdout)
        database = sqlite3.connect(cls.path(name))
        database.executescript(
            f"UPDATE process SET pid = {4000 + seed}; UPDATE meta SET value = '{host}' WHERE"
            f" key = 'host'; UPDATE meta SET value = {WALL + later} WHERE key = 'wall_offset_ns';"
            f" INSERT INTO meta VALUES ('boot', '{boot}');")
        database.commit()
        database.close()

    def merge(self, name, *parts, status=0, options=("-q", "-f")):
        done = custody("merge", *options, "-o", self.path(name), *map(self.path, parts),
                       status=status)
        return done if status else self.path(name)

    def told(self, name):
        return json.loads(custody("report", "--format=json", self.path(name)).stdout)

    def rows(self, name, sql):
        database = sqlite3.connect(self.path(name))
        database.row_factory = sqlite3.Row
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()

    def value(self, name, sql):
        return self.rows(name, sql)[0][0]

    def peak_of(self, parts, device_only=None):
        """Most that lived at once in all parts: (bytes, when), their times moved."""
        changes = []
        for name, moved in parts:
            end = self.value(name, "SELECT end_ns FROM process") or 1 << 62
            for row in self.rows(name, "SELECT * FROM allocation WHERE parent_id IS NULL"):
                if row["kind"] in HOST_KINDS:
                    continue
                gone = row["released_ns"] or end
                if row["free_waited_ns"] is not None:
                    gone = min(gone, row["free_requested_ns"] + row["free_waited_ns"])
                changes.append((row["alloc_ns"] + row["alloc_duration_ns"] + moved, row["bytes"]))
                changes.append((min(gone, end) + moved, -row["bytes"]))
        moments = collections.Counter()
        for at, size in changes:
            moments[at] += size
        live, peak = 0, (0, None)
        for at in sorted(moments):
            live += moments[at]
            if live > peak[0]:
                peak = (live, at)
        return peak

    def nothing_left(self, name):
        left = [one for one in os.listdir(self.place) if one.startswith(name + ".db")]
        self.assertEqual(left, [], "what a merge that failed has left")


class Sums(Case):
    def expect_sums(self, name, parts):
        told = self.told(name)
        for key in ("allocations", "allocated_bytes", "frees", "live_at_exit_bytes",
                    "host_live_at_exit_bytes"):
            self.assertEqual(told["memory"][key],
                             sum(self.true[part]["memory"].get(key, 0) for part in parts), key)
        for key in ("calls", "host_ns", "deferred", "deferred_bytes", "free_waited_ns",
                    "failed_releases", "waited_ns"):
            self.assertEqual(told["frees"][key],
                             sum(self.true[part]["frees"][key] for part in parts), key)
        kinds = {kind for part in parts for kind in self.true[part]["transfers"]["by_kind"]}
        for kind in kinds:
            for key in ("count", "bytes", "host_ns"):
                self.assertEqual(
                    told["transfers"]["by_kind"][kind][key],
                    sum(self.true[part]["transfers"]["by_kind"][kind][key] for part in parts))
        return told

    def test_the_whole_is_the_sum_of_its_parts(self):
        parts = ("one", "two", "deferred")
        self.merge("whole3", *parts)
        told = self.expect_sums("whole3", parts)
        self.assertEqual((told["memory"]["peak_bytes"], told["memory"]["peak_at_ns"]),
                         self.peak_of([(part, 0) for part in parts]))
        self.assertEqual(told["frees"]["pending_longest_ns"],
                         self.true["deferred"]["frees"]["pending_longest_ns"])
        self.assertEqual(
            self.value("whole3", "SELECT sum(bytes) FROM live_at_peak WHERE peak_process_id IS"
                                 " NULL AND peak_device_id IS NULL"),
            told["memory"]["peak_bytes"])

    def test_each_process_keeps_its_own_peak(self):
        self.merge("own", "one", "two")
        for row, part in zip(self.told("own")["process"], ("one", "two")):
            self.assertEqual(row["peak_bytes"], self.true[part]["memory"]["peak_bytes"])

    def test_samples_never_exceed_peaks_and_reach_them(self):
        self.merge("curve", "one", "two")
        for process in (1, 2):
            peak = self.value("curve", "SELECT bytes FROM peak WHERE device_id IS NULL"
                                       f" AND process_id = {process}")
            most = self.value("curve", "SELECT sum(m) FROM (SELECT max(live_bytes) AS m FROM"
                                       f" sample WHERE process_id = {process} AND kind <>"
                                       " 'pinned' GROUP BY kind)")
            self.assertGreaterEqual(most, peak)
        self.assertEqual(self.value("curve", "SELECT count(DISTINCT process_id) FROM sample"), 2)

    def test_a_merged_file_merges_again(self):
        self.merge("pair", "one", "four")
        self.merge("nested", "two", "pair")
        self.merge("flat", "two", "one", "four")
        nested, flat = self.told("nested"), self.told("flat")
        nested["trace"].pop("path"), flat["trace"].pop("path")
        self.assertEqual(nested, flat)
        for table in ("source", "process", "transfer_row", "allocation", "source_meta"):
            self.assertEqual([tuple(row) for row in self.rows("nested", f"SELECT * FROM {table}")],
                             [tuple(row) for row in self.rows("flat", f"SELECT * FROM {table}")])

    def test_an_incomplete_part_is_merged_with_a_word(self):
        self.merge("half", "one", "broken", options=("-f",))
        done = custody("merge", "-f", "-o", self.path("half"), self.path("one"),
                       self.path("broken"))
        self.assertIn("broken.db is incomplete", done.stderr)
        told = self.expect_sums("half", ("one", "broken"))
        self.assertFalse(told["trace"]["complete"])
        self.assertEqual(told["memory"]["peak_bytes"],
                         self.peak_of([("one", 0), ("broken", 0)])[0])
        self.assertEqual([row[0] for row in self.rows("half", "SELECT is_complete FROM source")],
                         [1, 0])

    def test_functions_are_the_same_by_name(self):
        self.change("renumbered", "UPDATE process SET pid = 77; UPDATE api SET id = id + 1000;"
                    "UPDATE allocation SET api_id = api_id + 1000,"
                    " free_api_id = free_api_id + 1000;"
                    "UPDATE api_call SET api_id = api_id + 1000;"
                    "UPDATE transfer_site SET api_id = api_id + 1000;"
                    "UPDATE failure SET api_id = api_id + 1000;", "two")
        self.merge("named", "one", "renumbered")
        self.expect_sums("named", ("one", "two"))
        calls = "SELECT name, sum(calls), sum(total_ns) FROM api_total GROUP BY 1"
        expected = collections.Counter()
        for part in ("one", "two"):
            for name, count, ns in self.rows(part, calls):
                expected.update({(name, "calls"): count, (name, "ns"): ns})
        for name, count, ns in self.rows("named", calls):
            self.assertEqual((count, ns), (expected[name, "calls"], expected[name, "ns"]), name)
        self.assertEqual(self.value("named", "SELECT count(*) FROM api"),
                         self.value("one", "SELECT count(*) FROM api"))
        by_name = ("SELECT name, count(*) FROM allocation JOIN api ON api.id = free_api_id"
                   " GROUP BY 1")
        self.assertEqual(sum(row[1] for row in self.rows("named", by_name)),
                         self.value("one", "SELECT count(free_api_id) FROM allocation") +
                         self.value("two", "SELECT count(free_api_id) FROM allocation"))

    def test_an_older_trace_has_what_it_has(self):
        self.change("older", "DROP VIEW physical_device; DROP TABLE source_meta;"
                    " DROP TABLE source; ALTER TABLE process DROP COLUMN source_id;"
                    " DROP TABLE finding; DELETE FROM meta WHERE key = 'boot';"
                    " UPDATE process SET pid = 78", "two")
        self.assertEqual(self.told("older")["physical_devices"][0]["processes"], 1)
        self.merge("mixed", "one", "older")
        self.expect_sums("mixed", ("one", "two"))
        self.assertEqual(self.value("mixed", "SELECT count(*) FROM process WHERE source_id"), 2)

    def test_places_of_transfers_may_be_alike_and_have_any_ids(self):
        """As rows that were put into the view make them: each has a place of its own."""
        self.change("gaps", "UPDATE process SET pid = 80; INSERT INTO transfer_site SELECT"
                    " 1000 + id * 7, process_id, kind, api_id, is_async, source_kind,"
                    " target_kind, source_device_id, target_device_id, context_id, caller,"
                    " stack_id, result, is_captured, copies FROM transfer_site;"
                    " UPDATE transfer_row SET site_id = 1000 + site_id * 7 WHERE id % 2;"
                    " DELETE FROM transfer_site WHERE id NOT IN (SELECT site_id FROM"
                    " transfer_row) OR id = (SELECT min(site_id) FROM transfer_row);"
                    " DELETE FROM transfer_row WHERE site_id NOT IN"
                    " (SELECT id FROM transfer_site)", "two")
        self.merge("whole", "gaps")
        key = ("kind, api_id, source_kind, target_kind, source_device_id, target_device_id,"
               " is_async, caller")
        said = self.rows("whole", f"SELECT {key}, sum(count), sum(bytes), sum(failed) FROM"
                         f" transfer_total GROUP BY {key}")
        true = self.rows("gaps", f"SELECT {key}, sum(copies), sum(CASE WHEN result OR"
                         " is_captured THEN 0 ELSE bytes END), sum(result <> 0) FROM transfer"
                         f" GROUP BY {key}")
        self.assertGreater(len(true), 10)
        self.assertEqual(list(map(tuple, said)), list(map(tuple, true)))

    def test_what_is_not_known_is_left_out_with_a_word(self):
        self.change("newer", "CREATE TABLE gravity(g); CREATE TABLE \"\x1b[2J\"(g);"
                    " UPDATE process SET pid = 79", "two")
        done = custody("merge", "-f", "-o", self.path("odd"), self.path("one"),
                       self.path("newer"))
        self.assertIn("the table gravity is not known", done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        self.assertEqual(self.rows("odd", "SELECT 1 FROM sqlite_schema WHERE name = 'gravity'"),
                         [])


class Clock(Case):
    def test_traces_of_one_boot_are_not_moved(self):
        self.merge("boot", "one", "three")
        self.assertEqual([row[0] for row in self.rows("boot", "SELECT moved_ns FROM source")],
                         [0, 0])

    def test_traces_of_other_boots_line_up_by_wall_time(self):
        self.merge("walls", "four", "one", "three")
        self.assertEqual([row[0] for row in self.rows("walls", "SELECT moved_ns FROM source")],
                         [9 * SECOND, 0, 0])
        told = self.told("walls")
        self.assertEqual(told["trace"]["wall_offset_ns"], WALL)
        self.assertEqual((told["memory"]["peak_bytes"], told["memory"]["peak_at_ns"]),
                         self.peak_of([("four", 9 * SECOND), ("one", 0), ("three", 0)]))
        self.assertEqual(told["trace"]["host"], "b; a")

    def test_without_a_boot_the_host_and_the_distance_tell(self):
        for name, seed, later in (("near", 91, 2 * SECOND), ("far", 92, 100 * SECOND)):
            self.change(name, f"UPDATE process SET pid = {seed}; DELETE FROM meta WHERE key ="
                        f" 'boot'; UPDATE meta SET value = {WALL + later} WHERE key ="
                        " 'wall_offset_ns'", "two")
        self.merge("guess", "one", "near", "far")
        self.assertEqual([row[0] for row in self.rows("guess", "SELECT moved_ns FROM source")],
                         [0, 0, 100 * SECOND])

    def test_a_trace_that_knows_no_time_of_day_stays_where_it_is(self):
        self.change("timeless", "UPDATE process SET pid = 93; DELETE FROM meta WHERE key ="
                    " 'wall_offset_ns'", "two")
        done = custody("merge", "-f", "-o", self.path("clocks"), self.path("four"),
                       self.path("timeless"))
        self.assertIn("timeless.db does not tell the time of day", done.stderr)
        self.assertEqual([row[0] for row in self.rows("clocks", "SELECT moved_ns FROM source")],
                         [0, 0])

    def test_one_device_of_several_processes_is_one(self):
        self.merge("shared", "one", "two", "four")
        told = self.told("shared")["physical_devices"]
        self.assertEqual([(row["processes"], row["host"]) for row in told],
                         [(2, "a"), (1, "b")])
        self.assertEqual((told[0]["peak_bytes"], told[0]["peak_at_ns"]),
                         self.peak_of([("one", 0), ("two", 0)]))
        self.assertEqual(told[1]["peak_bytes"], self.true["four"]["memory"]["peak_bytes"])
        self.assertEqual(self.value("shared", "SELECT sum(bytes) FROM live_at_peak WHERE"
                                              " peak_process_id IS NULL AND peak_device_id = 1"),
                         told[0]["peak_bytes"])
        text = custody("report", self.path("shared")).stdout
        self.assertIn("NVIDIA H200", text.split("processes")[1])

    def test_an_unfinished_file_counts_a_shared_device_too(self):
        self.merge("unfinished", "one", "two", "broken")
        told = self.told("unfinished")["physical_devices"]
        self.assertEqual(told[0]["peak_bytes"],
                         self.peak_of([("one", 0), ("two", 0), ("broken", 0)])[0])


class Refusals(Case):
    def refused(self, output, *arguments, words=(), status=1):
        done = custody("merge", *arguments, status=status)
        self.complains(done, *words)
        self.nothing_left(output)

    def test_what_cannot_be_read(self):
        newer = self.change("newer", "PRAGMA user_version = 99")
        with open(self.path("text"), "w") as text:
            text.write("no database, and for long enough to be none " * 9)
        open(self.path("empty"), "w").close()
        with open(self.path("one"), "rb") as whole, open(self.path("short"), "wb") as short:
            short.write(whole.read()[:20000])
        for path, word in ((self.path("missing"), "No such file"), (newer, "newer version"),
                           (self.path("text"), "not a trace"), (self.path("empty"), "is empty"),
                           (self.path("short"), "is damaged"), (self.place, "no session")):
            self.refused("out", "-o", self.path("out"), self.path("two"), path, words=(word, path))

    def test_wrong_usage(self):
        one, two = self.path("one"), self.path("two")
        for arguments, word in (((one, two), "-o FILE is wanted"),
                                (("-o", self.path("out")), "TRACES are wanted"),
                                (("-f", "-o", one, two, one), "one of the traces"),
                                (("-o", self.path("out"), one, two, one), "the same trace"),
                                (("-o", "", one), "-o FILE is wanted"),
                                (("--append", one), "unknown option")):
            self.refused("out", *arguments, words=(word,), status=2)

    def test_a_copy_is_the_same_run(self):
        shutil.copy(self.path("one"), self.path("copy"))
        self.refused("out", "-o", self.path("out"), self.path("one"), self.path("copy"),
                     words=("one.db", "copy.db", "the same run of process 4001"))
        self.merge("pair", "one", "two")
        self.refused("out", "-o", self.path("out"), self.path("pair"), self.path("two"),
                     words=("the same run of process 4002",))

    def test_an_existing_file_stays_unless_forced(self):
        with open(self.path("there"), "w") as there:
            there.write("precious")
        with open(self.path("there") + "-wal", "w") as there:
            there.write("left over")
        done = custody("merge", "-o", self.path("there"), self.path("one"), status=1)
        self.complains(done, "there.db exists; -f replaces it")
        with open(self.path("there")) as there:
            self.assertEqual(there.read(), "precious")
        custody("merge", "-f", "-o", self.path("there"), self.path("one"))
        self.assertEqual(self.told("there")["memory"]["allocations"], 2000)
        self.assertFalse(os.path.exists(self.path("there") + "-wal"))

    def test_a_place_that_cannot_be_written(self):
        self.refused("out", "-o", os.path.join(self.place, "nowhere", "x.db"), self.path("one"),
                     words=("cannot write", "nowhere"))
        self.refused("out", "-f", "-o", self.place, self.path("one"), words=("no regular file",))

    def test_a_file_that_grows_too_large(self):
        done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 1000; exec "$@"', "sh", CUSTODY,
                               "merge", "-o", self.path("large"), self.path("one"),
                               self.path("two")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.complains(done, "cannot write", "large.db:")
        self.nothing_left("large")

    def interrupt(self, number):
        """Whether a merge could be ended while its file was being made."""
        process = subprocess.Popen([CUSTODY, "merge", "-q", "-o", self.path("stopped")] +
                                   [self.path(part[0]) for part in self.parts])
        while process.poll() is None and not any(
                name.startswith("stopped.db.") for name in os.listdir(self.place)):
            time.sleep(0.0005)
        process.send_signal(number)
        return process.wait() == -number

    def test_an_interrupted_merge_leaves_no_file(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            for _ in range(20):
                if self.interrupt(number):
                    break
                os.remove(self.path("stopped"))
            else:
                self.fail("the merge was never interrupted")
            self.assertFalse(os.path.exists(self.path("stopped")))
            if number != signal.SIGKILL:
                self.nothing_left("stopped")

    def test_sources_are_not_changed_and_names_may_be_odd(self):
        odd = os.path.join(self.place, "a%20b?c#d'e.db")
        shutil.copy(self.path("one"), odd)
        os.chmod(odd, 0o444)
        with open(odd, "rb") as file:
            before = hashlib.sha256(file.read()).digest()
        custody("merge", "-q", "-f", "-o", self.path("odd"), odd, self.path("two"))
        with open(odd, "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).digest(), before)
        self.assertEqual(self.value("odd", "SELECT path FROM source"), odd)

    def test_nonsense_in_rows_is_told_or_carried(self):
        for sql in ("UPDATE allocation SET id = -id",
                    "UPDATE allocation SET id = id + 9223372036854770000 WHERE id < 5",
                    "UPDATE allocation SET process_id = 77777",
                    "UPDATE allocation SET released_ns = -9223372036854775800",
                    "UPDATE allocation SET alloc_ns = 9223372036854775800",
                    "UPDATE meta SET value = 9223372036854775807 WHERE key = 'wall_offset_ns'",
                    "UPDATE meta SET value = NULL", "DELETE FROM meta", "DROP TABLE api",
                    "UPDATE device SET id = 4294967297, process_id = 3",
                    "UPDATE transfer_site SET id = 5000000000 + id",
                    "DROP TABLE allocation; CREATE VIEW allocation AS SELECT 1 AS id",
                    "CREATE TRIGGER bad AFTER INSERT ON process BEGIN DELETE FROM meta; END"):
            path = self.change("nonsense", sql, "two")
            done = custody("merge", "-q", "-f", "-o", self.path("odd"), self.path("one"), path,
                           status=None)
            self.assertIn(done.returncode, (0, 1), sql)
            self.assertNotRegex(done.stderr, "Sanitizer|runtime error", sql)
            if done.returncode:
                self.complains(done, "nonsense.db")
            else:
                custody("report", self.path("odd"))

    def test_damage_is_told_and_never_crashes(self):
        shaky = random.Random(7)
        with open(self.path("one"), "rb") as file:
            sound = file.read()
        for _ in range(test_report.FLIPS // 2):
            data = bytearray(sound)
            for _ in range(shaky.randrange(1, 6)):
                at = shaky.randrange(len(data))
                data[at:at + 40] = shaky.randbytes(len(data[at:at + 40]))
            with open(self.path("flipped"), "wb") as file:
                file.write(data)
            done = custody("merge", "-q", "-o", self.path("out"), self.path("flipped"),
                           self.path("two"), status=None)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertNotRegex(done.stderr, "Sanitizer|runtime error")
            if done.returncode:
                self.assertIn("flipped.db", done.stderr)
            else:
                os.remove(self.path("out"))
            self.nothing_left("out")


if __name__ == "__main__":
    unittest.main(verbosity=1)
