#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a report says of frees: policies, waits, what was pending, and findings."""
import json
import sqlite3
import subprocess
import sys
import unittest

import test_report
from test_report import GENERATOR, SCHEMA, custody

POLICIES = ("immediate", "deferred", "nowait")


class Case(test_report.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for policy in POLICIES:
            for name, options in ((policy, []), (policy + "-partial", ["--incomplete"])):
                made = subprocess.run([sys.executable, GENERATOR, "--policy", policy, *options,
                                       SCHEMA, cls.path(name)], check=True,
                                      stdout=subprocess.PIPE)
                cls.true[name] = json.loads(made.stdout)

    def told(self, path, *options):
        return json.loads(custody("report", "--format=json", *options, path).stdout)

    def text(self, path, *options):
        return custody("report", *options, path).stdout

    def section(self, path, heading="FREES"):
        return " ".join(self.text(path).split(heading + "\n")[1].split("\n\n")[0].split())


class Figures(Case):
    def test_every_policy_gives_its_sums(self):
        for name in [p + end for p in POLICIES for end in ("", "-partial")]:
            told = self.told(self.path(name))
            for part in ("frees", "memory"):
                for key, value in self.true[name][part].items():
                    self.assertEqual(told[part][key], value, (name, part, key))

    def test_an_unfinished_trace_says_the_same(self):
        for policy in POLICIES:
            whole, partial = (self.told(self.path(policy + end), "-n", "100")["frees"]
                              for end in ("", "-partial"))
            self.assertEqual(whole, partial)

    def test_places_and_libraries_add_up(self):
        for policy in POLICIES:
            frees = self.told(self.path(policy), "-n", "100")["frees"]
            for part in ("by_caller", "by_module"):
                rows = frees[part]
                self.assertGreater(len(rows), 1)
                for key, whole in (("count", "calls"), ("host_ns", "host_ns"),
                                   ("deferred", "deferred"), ("waited_ns", "free_waited_ns")):
                    self.assertEqual(sum(row[key] for row in rows), frees[whole], (policy, key))
            if policy == "nowait":
                self.assertEqual(sum(row["saved_ns"] for row in frees["by_caller"]),
                                 frees["nowait_at_most_ns"])

    def test_flushes_stand_by_cause(self):
        flushes = self.told(self.path("deferred"))["frees"]["flushes"]
        self.assertEqual(flushes["count"], {
            "passes": 2, "count": 22, "bytes": 12288, "failed": 0, "duration_ns": 900,
            "longest_ns": 600, "waited_ns": 50})
        self.assertEqual(flushes["bytes"]["failed"], 1)

    def test_samples_carry_what_is_pending(self):
        samples = self.told(self.path("nowait"))["memory"]["samples"]
        self.assertGreater(max(row["pending_bytes"] for row in samples), 0)

    def test_the_peak_is_that_of_what_is_not_freed(self):
        true = [self.true[policy]["memory"] for policy in POLICIES]
        for memory in true[1:]:
            self.assertGreater(memory["held_peak_bytes"], memory["peak_bytes"])
        self.assertEqual(true[0]["held_peak_bytes"], true[0]["peak_bytes"])
        for policy in POLICIES[1:]:
            held = self.told(self.path(policy))["memory"]["held_peak_bytes"]
            self.assertEqual(held, self.true[policy]["memory"]["held_peak_bytes"])

    def test_frees_of_pools_do_not_wait_and_are_not_counted(self):
        path = self.change("pools", "UPDATE allocation SET free_api_id = 7")
        self.assertEqual(self.told(path)["frees"]["calls"], 0)

    def test_a_part_of_the_report_has_them(self):
        self.assertIn("frees", self.told(self.path("nowait"), "--memory"))
        self.assertNotIn("frees", self.told(self.path("nowait"), "--transfers"))


class Text(Case):
    def test_no_free_at_all_reads_well(self):
        for policy in POLICIES:
            path = self.change("none-" + policy, "DELETE FROM allocation;"
                                                 f"UPDATE process SET policy = '{policy}'")
            section = self.section(path)
            self.assertIn(f"policy {policy}: ", section)
            self.assertIn("frees none that can wait for the device", section)
            for word in ("save", "deferred 0", "waited", "hint", "exit"):
                self.assertNotIn(word, section.split("frees none")[1])

    def test_a_driver_that_cannot_put_off_is_no_riddle(self):
        path = self.change("forwarded", "UPDATE process SET policy = 'deferred'")
        self.assertIn("deferred none of them nowait would save", self.section(path))
        self.assertNotIn("none of them", self.section(self.path("immediate")))

    def test_each_policy_says_what_nowait_is_worth(self):
        for policy, words in (("immediate", "would save at most 3.0"),
                              ("deferred", "would save at most 2."),
                              ("nowait", "has saved at most 2")):
            section = self.section(self.path(policy))
            self.assertIn(f"nowait {words}", section)
            self.assertEqual("pending for" in section, policy != "immediate")

    def test_a_hint_is_for_frees_that_are_seen_to_wait(self):
        for policy in POLICIES:
            path = self.change("hint-" + policy, "UPDATE allocation SET free_duration_ns = 5000000"
                                                 " WHERE kind = 'device';", policy)
            self.assertEqual("--frees=nowait" in self.section(path), policy != "nowait")
        self.assertNotIn("--frees=nowait", self.section(self.path("whole")))

    def test_it_is_said_what_less_waiting_is_worth(self):
        for policy in POLICIES:
            path = self.change("worth-" + policy, "UPDATE allocation SET free_duration_ns = 5000000"
                                                  " WHERE kind = 'device';", policy)
            self.assertEqual("its next synchronise may wait instead" in self.section(path),
                             policy != "nowait")
        section = self.section(self.path("nowait"))
        self.assertIn("until custody saw the device done.", section)
        path = self.change("synchronized", "INSERT INTO api VALUES (90, 'cuStreamSynchronize');"
                                           "INSERT INTO api_call VALUES (1, 90, 1, 5, 0, 7000, 5);",
                           "nowait")
        self.assertIn("(7.00 us in its own synchronising calls)", self.section(path))

    def test_few_blocks_are_told_in_few_words(self):
        for released, words in ((1, "pending for 9.00 us waited"),
                                (5, "pending for 2.50 us in the median, 9.00 us at most"),
                                (100, "pending for 2.50 us in the median, 7.00 us for 99 of 100, "
                                      "9.00 us at most")):
            # Sums that are there are not made again.
            path = self.change(f"few-{released}", (
                "INSERT INTO allocation_total VALUES"
                " (1, 1, 'device', 1, 0, 9, 1, 512, 512, 9, 1, 9, 9, 0, 0, 0, 0, 0, 0, 0);"
                f"INSERT INTO free_total VALUES (1, 2, 1, {released}, 9, 9, 0, {released}, 4096, 0,"
                " 0, 0);"
                f"INSERT INTO pending_total VALUES ({released}, 2500, 7000, 9000, 0, 0)"), "nowait")
            self.assertIn(words, self.section(path))

    def test_what_is_pending_has_a_band_of_its_own(self):
        text = self.text(self.path("nowait"))
        self.assertIn("░ pending", text)
        self.assertIn("at most, with what was freed and not released yet", " ".join(text.split()))
        self.assertIn("at a time); pending for", self.section(self.path("nowait")))
        plain = custody("report", self.path("nowait"), LC_ALL="C").stdout
        self.assertIn("- pending: freed", plain)
        self.assertTrue(plain.isascii())
        for name in ("immediate", "whole"):
            text = self.text(self.path(name)).split("FREES")[0]
            self.assertNotIn("pending", text)
            self.assertNotIn("held", text)

    def test_what_was_pending_at_the_end_is_told_and_no_leak(self):
        path = self.path("rest")
        subprocess.run([sys.executable, GENERATOR, "--policy", "nowait", "--clean", SCHEMA, path],
                       check=True, stdout=subprocess.PIPE)
        database = sqlite3.connect(path)
        database.executescript(
            "UPDATE allocation SET release_cause = 'exit' WHERE id IN (SELECT id FROM allocation"
            " WHERE free_waited_ns IS NOT NULL LIMIT 3);"
            "UPDATE meta SET value = 0 WHERE key = 'complete'")
        database.commit()
        database.close()
        self.assertEqual(self.told(path)["frees"]["pending_at_exit_blocks"], 3)
        self.assertIn("at exit 3 blocks", self.section(path))
        self.assertEqual(self.told(path)["memory"]["leaks"], [])

    def test_lines_keep_to_the_width(self):
        for width in (80, 120):
            text = custody("report", self.path("nowait"), COLUMNS=str(width)).stdout
            self.assertLessEqual(max(map(len, text.split("\n"))), width)


class Findings(Case):
    def setUp(self):
        self.trace = self.change("findings", ";".join(
            "INSERT INTO finding(process_id, kind, api_id, allocation_id, address, at_ns,"
            f" thread_id, context_id, caller) VALUES (1, '{kind}', {api}, {block}, 4096,"
            f" {5_000_000_000 + at}, 1, 1, {(4 << 32) + place})"
            for kind, api, block, at, place in (
                ("use after free", 3, 7, 300, 0x900), ("use after free", 3, 7, 200, 0x900),
                ("use after free", 3, 7, 250, 0x980), ("double free", 2, 7, 100, 0x900))))
        database = sqlite3.connect(self.trace)
        self.block = database.execute(
            "SELECT caller, bytes FROM allocation WHERE id = 7").fetchone()
        database.close()

    def test_equal_mistakes_are_one_row_with_both_places(self):
        rows = self.told(self.trace)["findings"]
        self.assertEqual([(row["kind"], row["count"], row["first_at_ns"]) for row in rows],
                         [("use after free", 2, 5_000_000_200), ("double free", 1, 5_000_000_100),
                          ("use after free", 1, 5_000_000_250)])
        first = rows[0]
        self.assertEqual(first["api"], "cuMemcpyHtoD_v2")
        self.assertTrue(first["module"].endswith("libcudart.so.13.0.96"))
        self.assertEqual(first["offset"], 0x900)
        self.assertEqual(first["alloc_offset"], self.block[0] & 0xffffffff)
        self.assertEqual(first["block_bytes"], self.block[1])
        self.assertEqual(first["address"], 4096)

    def test_they_stand_in_the_trouble_part(self):
        for options in ([], ["--transfers"]):
            trouble = self.text(self.trace, *options).split("TROUBLE\n")[1]
            self.assertIn("use after free", trouble)
            self.assertIn("double free", trouble)
            self.assertIn("allocated by", trouble)
        self.assertNotIn("finding", self.text(self.path("whole")))

    def test_a_block_that_is_not_known_is_no_obstacle(self):
        path = self.change("orphan", "INSERT INTO finding(process_id, kind, at_ns) VALUES"
                                     " (1, 'double free', 5000000000)")
        row = self.told(path)["findings"][0]
        self.assertEqual((row["kind"], row["api"], row["alloc_module"], row["count"]),
                         ("double free", "?", None, 1))
        self.assertIn("double free", self.text(path))


class Older(Case):
    """A trace of before there were deferred frees has neither their columns nor their tables."""

    def age(self, name, source, sql=""):
        path = self.path(name)
        with open(self.path(source), "rb") as old, open(path, "wb") as new:
            new.write(old.read())
        database = sqlite3.connect(path)
        database.executescript("DROP TABLE finding; DROP TABLE free_total;"
                               "DROP TABLE pending_total;"
                               "ALTER TABLE allocation DROP COLUMN free_waited_ns;"
                               "ALTER TABLE allocation DROP COLUMN ready_ns;"
                               "ALTER TABLE allocation DROP COLUMN free_saved_ns;"
                               "DROP INDEX operation_unload;"
                               "ALTER TABLE operation DROP COLUMN caller;"
                               "ALTER TABLE operation DROP COLUMN detail;"
                               "ALTER TABLE operation DROP COLUMN bytes;"
                               "ALTER TABLE process DROP COLUMN note;"
                               "ALTER TABLE peak DROP COLUMN held_peak_bytes;" + sql)
        database.commit()
        database.close()
        return path

    @unittest.skipIf(sqlite3.sqlite_version_info < (3, 35), "this SQLite cannot drop a column")
    def test_it_reads_as_it_did(self):
        for name in ("whole", "partial"):
            old, new = self.told(self.age("old-" + name, name)), self.told(self.path(name))
            for part in ("memory", "transfers", "frees", "failures", "findings", "calls"):
                self.assertEqual(old[part], new[part], (name, part))
            self.assertIn("FREES", self.text(self.path("old-" + name)))


if __name__ == "__main__":
    unittest.main(verbosity=1)
