#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs that read a trace, on traces that no program made.

Every figure of a report is compared with sums that synthetic_trace.py kept for
itself; then come terminals, locales, files of every wrong kind, and damage.
"""
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("top_srcdir", os.path.join(os.path.dirname(__file__), "../.."))
CUSTODY = os.path.join(os.environ.get("top_builddir", "."), "custody")
GENERATOR = os.path.join(SOURCE, "tests/support/synthetic_trace.py")
SCHEMA = os.path.join(SOURCE, "src/report")
FLIPS = int(os.environ.get("CUSTODY_TEST_FLIPS", "60"))


def custody(*arguments, status=0, stdin=subprocess.DEVNULL, text=None, **environment):
    variables = {name: value for name, value in os.environ.items()
                 if name not in ("COLUMNS", "NO_COLOR") and not name.startswith("CUSTODY_")}
    variables.update({"LC_ALL": "C.UTF-8", "TERM": "xterm", "TZ": "UTC", **environment})
    source = {"input": text} if text is not None else {"stdin": stdin}
    done = subprocess.run([CUSTODY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=variables, timeout=120, encoding="utf-8", errors="replace", **source)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{arguments}: exit {done.returncode}, not {status}\n{done.stderr}")
    return done


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="custody-test-report-")
        cls.true = {}
        for name, options in (("whole", []), ("partial", ["--incomplete"]),
                              ("clean", ["--clean", "--seed", "2"]),
                              ("none", ["--allocations", "0", "--transfers", "0"])):
            made = subprocess.run([sys.executable, GENERATOR, *options, SCHEMA, cls.path(name)],
                                  check=True, stdout=subprocess.PIPE)
            cls.true[name] = json.loads(made.stdout)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.place, name + ".db")

    def change(self, name, sql, source="whole"):
        """A copy of the whole trace, or of another, with something done to it."""
        path = self.path(name)
        shutil.copy(self.path(source), path)
        database = sqlite3.connect(path)
        database.executescript(sql)
        database.commit()
        database.close()
        return path

    def complains(self, done, *words):
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in ("custody: ",) + words:
            self.assertIn(word, done.stderr)


class Figures(Case):
    def compare(self, true, told, where):
        for key, value in true.items():
            if isinstance(value, dict):
                self.compare(value, told[key], where + "." + key)
            else:
                self.assertEqual(told[key], value, where + "." + key)

    def report(self, name, *options):
        return json.loads(custody("report", "--format=json", *options, self.path(name)).stdout)

    def test_a_finished_trace_gives_its_sums(self):
        self.compare(self.true["whole"], self.report("whole"), "whole")

    def test_an_unfinished_trace_gives_the_same_from_its_rows(self):
        self.compare(self.true["partial"], self.report("partial"), "partial")
        whole, partial = self.report("whole"), self.report("partial")
        for part in ("by_kind", "top", "by_module", "leaks"):
            self.assertEqual(whole["memory"][part], partial["memory"][part], part)
        self.assertEqual(whole["transfers"], partial["transfers"])
        self.assertEqual(sorted(map(str, whole["calls"])), sorted(map(str, partial["calls"])))

    def test_holders_add_up_to_the_peak(self):
        memory = self.report("whole", "-n", "1000000")["memory"]
        for part in ("top", "by_module"):
            self.assertEqual(sum(row["bytes"] for row in memory[part]), memory["peak_bytes"])
        device = sum(kind["peak_bytes"] for kind in memory["by_kind"].values()
                     if not kind["is_host"])
        self.assertEqual(device, memory["peak_bytes"])

    def test_leaks_add_up(self):
        memory = self.report("whole", "-n", "1000000")["memory"]
        self.assertEqual(sum(row["bytes"] for row in memory["leaks"]),
                         memory["live_at_exit_bytes"] + memory["host_live_at_exit_bytes"])

    def test_sizes_add_up_to_all_transfers(self):
        transfers = self.report("whole")["transfers"]
        for key in ("count", "bytes", "host_ns"):
            self.assertEqual(sum(row[key] for row in transfers["by_size"]), transfers[key])

    def test_the_object_has_what_it_promises(self):
        report = self.report("none")
        self.assertEqual(report["memory"]["peak_bytes"], 0)
        self.assertEqual(report["advice"], [])
        self.assertEqual(report["failures"], [])
        self.assertLessEqual({"policy", "longest_flush_ns", "waited_ns", "flushes"},
                             set(report["frees"]))
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["process"][0]["pid"], 4711)
        self.assertEqual(report["devices"][0]["name"], "NVIDIA H200")

    def test_a_part_may_be_chosen(self):
        self.assertNotIn("transfers", self.report("whole", "--memory"))
        self.assertNotIn("memory", self.report("whole", "--transfers"))
        self.assertEqual(list(self.report("whole", "--leaks")["memory"]), ["leaks"])
        self.assertIn("top", self.report("whole", "--peak")["memory"])

    def test_views_are_never_part_of_a_sum(self):
        path = self.change("views", "UPDATE allocation SET parent_id = 1 WHERE id > 1000;"
                                    "UPDATE meta SET value = 0 WHERE key = 'complete'")
        report = json.loads(custody("report", "--format=json", path).stdout)
        self.assertEqual(report["memory"]["allocations"], 1000)
        self.assertEqual(report["memory"]["views"], 1000)

    def test_text_from_a_trace_is_made_valid(self):
        path = self.change("bytes", "UPDATE process SET"
                                    " arguments = CAST(x'61ff0a1b5b316d' AS TEXT)")
        report = json.loads(custody("report", "--format=json", path).stdout)
        self.assertEqual(report["process"][0]["arguments"], "a\ufffd\n\x1b[1m")
        self.assertNotIn("\x1b", custody("report", path).stdout)


class Text(Case):
    def test_lines_keep_to_the_width(self):
        for width in (80, 100, 160):
            text = custody("report", self.path("whole"), COLUMNS=str(width)).stdout
            longest = max(text.split("\n"), key=len)
            self.assertLessEqual(len(longest), width, longest)

    def test_piped_text_is_80_wide_and_plain(self):
        text = custody("report", self.path("whole")).stdout
        self.assertLessEqual(max(map(len, text.split("\n"))), 80)
        self.assertNotIn("\x1b", text)

    def test_color_is_for_those_who_ask(self):
        always = custody("report", "--color=always", self.path("whole")).stdout
        self.assertIn("\x1b[1mMEMORY", always)
        never = custody("report", "--color=never", self.path("whole"), NO_COLOR="1").stdout
        self.assertNotIn("\x1b", never)

    def test_a_plain_locale_gets_plain_characters(self):
        text = custody("report", self.path("whole"), LC_ALL="C").stdout
        self.assertTrue(text.isascii(), [c for c in text if not c.isascii()][:5])
        self.assertIn("#", text)
        self.assertIn("█", custody("report", self.path("whole")).stdout)

    def test_processes_are_cut_as_other_lists_are(self):
        path = self.change("many", "".join(
            f"INSERT INTO process(id, pid, exec_serial, executable, start_ns) VALUES"
            f" ({i}, {i * 1000}, 0, '/bin/child', 0);"
            f"INSERT INTO peak VALUES ({i}, NULL, 0, {i}, 0, {i});" for i in range(2, 32)))
        text = custody("report", "-n", "5", path).stdout.split("MEMORY")[0]
        self.assertIn("and 26 more", text)
        self.assertIn("31000", text)
        self.assertNotIn("2000", text)
        told = json.loads(custody("report", "--format=json", path).stdout)["process"]
        self.assertEqual([row["id"] for row in told], list(range(1, 32)))

    def test_sums_of_what_several_had_are_called_bounds(self):
        path = self.change("several", "INSERT INTO sample SELECT at_ns, 2, device_id, kind,"
                                      " live_bytes, pending_bytes FROM sample")
        for trace, is_bound in ((path, True), (self.path("whole"), False)):
            text = " ".join(custody("report", trace).stdout.split())
            self.assertEqual("upper bound" in text, is_bound)

    def test_n_limits_the_long_lists_and_says_so(self):
        text = custody("report", "-n", "3", "--leaks", "--peak", self.path("whole")).stdout
        self.assertIn("more (-n shows more rows)", text)
        self.assertLess(text.count("libcudart"), 10)

    def test_an_unfinished_trace_is_called_incomplete(self):
        self.assertIn("incomplete", custody("report", self.path("partial")).stdout)
        self.assertNotIn("incomplete", custody("report", self.path("whole")).stdout)

    def test_nothing_leaked_is_said(self):
        self.assertIn("Every block was freed", custody("report", self.path("clean")).stdout)

    def test_lost_records_and_unwatched_functions_are_said(self):
        path = self.change("lost", "INSERT INTO gap VALUES (1, 1, 1234, 5000000000, 5000001000);"
                                   "INSERT INTO uncovered(process_id, name, version, at_ns)"
                                   " VALUES (1, 'cuNewThing', 14000, 5000000000)")
        text = custody("report", path).stdout
        self.assertIn("1,234 records were lost", text.split("MEMORY")[0])
        self.assertIn("cuNewThing", text)
        report = json.loads(custody("report", "--format=json", path).stdout)
        self.assertEqual(report["lost"][0]["count"], 1234)
        self.assertEqual(report["uncovered"][0]["name"], "cuNewThing")

    def test_what_lost_records_may_have_told_is_not_denied(self):
        path = self.change("holes", "DELETE FROM allocation; DELETE FROM allocation_total;"
                                    "DELETE FROM peak; DELETE FROM sample; DELETE FROM failure;"
                                    "INSERT INTO gap VALUES (1, 1, 1234, 5000000000, 5000001000)")
        text = " ".join(custody("report", path).stdout.split())
        for claim in ("no device memory was allocated", "Every block was freed",
                      "No driver call failed", "CUSTODY_BUFFER"):
            self.assertNotIn(claim, text)
        for word in ("peak unknown", "No block is known", "No failed call is among"):
            self.assertIn(word, text)

    def test_harmless_functions_are_counted_by_family(self):
        path = self.change("family", ";".join(
            f"INSERT INTO uncovered(process_id, name, version, at_ns) VALUES (1, '{name}', 0, 1)"
            for name in ("cuGLInit", "cuTexObjectCreate", "cuTexObjectDestroy", "cuLinkCreate")))
        text = custody("report", path).stdout
        self.assertIn("4 driver functions that custody leaves alone", " ".join(text.split()))
        self.assertIn("textures and surfaces 2", " ".join(text.split()))
        self.assertNotIn("cuTexObjectCreate", text)
        self.assertIn("cuTexObjectCreate", custody("report", "-v", path).stdout)
        rows = json.loads(custody("report", "--format=json", path).stdout)["uncovered"]
        self.assertEqual({row["name"]: row["family"] for row in rows}["cuLinkCreate"], "JIT linker")

    def test_globals_of_modules_are_no_leaks(self):
        path = self.change("module", "UPDATE allocation SET kind = 'module'"
                                     " WHERE released_ns IS NULL")
        self.assertIn("Every block was freed", custody("report", path).stdout)

    def test_captured_copies_are_told(self):
        path = self.change("captured", "UPDATE transfer_site SET is_captured = 1 WHERE id = 1")
        self.assertIn("captured into a graph", custody("report", path).stdout)
        whole = sum(self.true["whole"]["transfers"]["by_kind"][kind]["count"]
                    for kind in self.true["whole"]["transfers"]["by_kind"])
        self.assertIn(f"{whole:,} transfers, ", custody("report", self.path("whole")).stdout)
        self.assertNotIn("captured", custody("report", self.path("whole")).stdout)

    LAUNCHES = ("UPDATE api SET name = 'cuGraphLaunch' WHERE id = 11;"
                "UPDATE transfer_site SET copies = 4 WHERE api_id = 11;"
                "UPDATE transfer_row SET duration_ns = 0 WHERE site_id IN"
                " (SELECT id FROM transfer_site WHERE api_id = 11);")

    def test_copies_in_graphs_are_counted_and_told(self):
        path = self.change("graphs", self.LAUNCHES, source="partial")
        database = sqlite3.connect(path)
        copies, size = database.execute(
            "SELECT sum(copies), sum(bytes) FILTER (WHERE NOT result) FROM transfer"
            " WHERE api_id = 11").fetchone()
        alone = database.execute("SELECT count(*) FROM transfer WHERE kind = 'H2D'"
                                 " AND api_id <> 11").fetchone()[0]
        told = json.loads(custody("report", "--format=json", path).stdout)
        self.assertEqual(told["transfers"]["by_kind"]["H2D"]["count"], alone + copies)
        self.assertEqual((told["transfers"]["in_graphs"], told["transfers"]["in_graphs_bytes"]),
                         (copies, size))
        self.assertEqual(told["transfers"]["uncounted_launches"], 0)
        self.assertNotIn("cuGraphLaunch", [row["name"] for row in told["calls"]])
        text = " ".join(custody("report", path).stdout.split())
        self.assertIn("ran inside of graphs", text)
        self.assertIn(f"{copies:,} of these (", text)
        self.assertGreater(size, 0)
        self.assertNotIn("graphs", custody("report", "--transfers", self.path("whole")).stdout)

    def test_what_nobody_can_count_in_graphs_is_told(self):
        unknown = "UPDATE transfer_site SET copies = 0, is_captured = 1 WHERE api_id = 11;"
        path = self.change("conditional", self.LAUNCHES + unknown, source="partial")
        text = " ".join(custody("report", path).stdout.split())
        self.assertIn("conditional nodes", text)
        self.assertNotIn("could not be read", text)
        path = self.change("unread", self.LAUNCHES + unknown + "UPDATE transfer_site SET"
                           " kind = 'UNKNOWN' WHERE api_id = 11", source="partial")
        text = " ".join(custody("report", path).stdout.split())
        self.assertIn("could not be read", text)
        self.assertNotIn("conditional nodes", text)
        told = json.loads(custody("report", "--format=json", path).stdout)["transfers"]
        self.assertGreater(told["uncounted_launches"], 0)
        self.assertEqual((told["in_graphs"], told["in_graphs_bytes"]), (0, 0))

    def test_a_trace_of_before_graphs_were_read_has_calls_only(self):
        path = self.change("before_graphs", "DROP VIEW gpu_work; DROP VIEW transfer;"
                           " DROP TABLE gpu_work_row; DROP TABLE gpu_work_site;"
                           " ALTER TABLE transfer_site DROP COLUMN copies;"
                           " CREATE VIEW transfer AS SELECT r.*, s.process_id, s.kind, s.api_id,"
                           "  s.is_async, s.source_kind, s.target_kind, s.source_device_id,"
                           "  s.target_device_id, s.caller, s.result, s.is_captured"
                           "  FROM transfer_row r JOIN transfer_site s ON s.id = r.site_id",
                           source="partial")
        told = json.loads(custody("report", "--format=json", path).stdout)
        whole = json.loads(custody("report", "--format=json", self.path("whole")).stdout)
        self.assertEqual(told["transfers"]["by_kind"], whole["transfers"]["by_kind"])

    def test_what_died_with_its_context_is_told(self):
        path = self.change("context", "UPDATE allocation SET release_cause = 'reset',"
                                      " free_requested_ns = NULL"
                                      " WHERE released_ns IS NOT NULL AND id < 3")
        self.assertIn("died with", custody("report", path).stdout)

    def test_no_line_ends_in_blanks(self):
        for line in custody("report", self.path("whole")).stdout.split("\n"):
            self.assertEqual(line, line.rstrip())

    def test_failures_are_named(self):
        text = custody("report", self.path("whole")).stdout
        database = sqlite3.connect(self.path("whole"))
        failed = database.execute("SELECT count(*) FROM failure").fetchone()[0]
        self.assertEqual("ILLEGAL_ADDRESS" in text, failed > 0)
        told = json.loads(custody("report", "--format=json", self.path("whole")).stdout)
        for row in told["failures"]:
            self.assertEqual((row["result"], row["result_name"]),
                             (700, "CUDA_ERROR_ILLEGAL_ADDRESS"))


class Output(Case):
    def test_a_report_file_is_replaced_whole(self):
        path = os.path.join(self.place, "report.json")
        for _ in range(2):
            custody("report", "--format=json", "-o", path, self.path("whole"))
            with open(path) as file:
                json.load(file)
        self.assertEqual([name for name in os.listdir(self.place) if "report.json." in name], [])

    def test_a_trace_is_never_overwritten(self):
        self.complains(custody("report", "-o", self.path("clean"), self.path("whole"), status=1),
                       "database")
        custody("report", self.path("clean"))

    def test_a_place_that_cannot_be_written_is_said(self):
        self.complains(custody("report", "-o", "/no/such/place", self.path("whole"), status=1),
                       "/no/such/place")

    def test_a_full_device_is_said(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([CUSTODY, "report", self.path("whole")], stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


class Refusals(Case):
    def refuses(self, path, *words):
        for verb in ("report", "sql"):
            self.complains(custody(verb, path, *(["SELECT 1"] if verb == "sql" else []), status=1),
                           *words)

    def write(self, name, content):
        path = os.path.join(self.place, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_what_is_no_trace_is_refused(self):
        self.refuses(os.path.join(self.place, "absent.db"), "absent.db")
        self.refuses(self.place)
        self.refuses(self.write("empty.db", b""))
        self.refuses(self.write("text.db", b"hello\n" * 100), "text.db")
        self.refuses("/dev/null")

    def test_a_log_that_cannot_be_read_where_it_lies_is_said(self):
        path, closed = self.change("walk", ""), os.path.join(self.place, "closed")
        writer = sqlite3.connect(path)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE meta SET value = 'x' WHERE key = 'host'")
        writer.commit()
        os.mkdir(closed)
        for ending in ("", "-wal"):
            shutil.copy(path + ending, closed)
        writer.close()
        os.chmod(self.place, 0o755)
        os.chmod(closed, 0o555)
        try:
            done = subprocess.run([CUSTODY, "report", os.path.join(closed, "walk.db")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  encoding="utf-8", user=65534 if os.geteuid() == 0 else None)
        except PermissionError:
            self.skipTest("the build directory is closed to other users")
        self.assertEqual(done.returncode, 1)
        self.complains(done, "walk.db-wal", "copy both")

    def test_a_foreign_database_is_refused(self):
        path = os.path.join(self.place, "foreign.db")
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE allocation (id)")
        database.commit()
        self.refuses(path, "foreign.db")

    def test_a_newer_trace_is_refused(self):
        self.refuses(self.change("newer", "PRAGMA user_version = 99"), "newer")

    def test_a_truncated_trace_is_refused(self):
        with open(self.path("whole"), "rb") as file:
            content = file.read()
        for part in (50, 4096, len(content) // 2):
            self.refuses(self.write("cut.db", content[:part]))

    def test_a_missing_table_is_said(self):
        done = custody("report", self.change("headless", "DROP TABLE process"), status=1)
        self.complains(done, "process")

    def test_wrong_usage_is_exit_2(self):
        whole = self.path("whole")
        for arguments in ([], [whole, whole], ["--nonsense", whole], ["--format=xml", whole],
                          ["-n", "many", whole], ["-n"], ["-n", "0", whole]):
            self.complains(custody("report", *arguments, status=2))
        self.complains(custody("sql", status=2))
        self.complains(custody("env", "operand", status=2))

    def test_nonsense_in_every_cell_does_no_harm(self):
        database = sqlite3.connect(self.path("whole"))
        tables = [row[0] for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")
                           if row[1] not in ("id", "key", "stack_id", "depth")]
                   for table in tables}
        database.close()
        for number, value in enumerate(("-1", str(2**63 - 1), str(-2**63), "x'ff00'", "'\x1b[2J'",
                                        "9e999")):
            path = self.change("nonsense", ";".join(
                f"UPDATE OR IGNORE {table} SET {', '.join(f'{name} = {value}' for name in names)}"
                for table, names in columns.items() if names and table != "meta"))
            for options in (["--format=json"], []):
                done = custody("report", *options, path, status=None)
                self.assertIn(done.returncode, (0, 1), (value, done.stderr))
            custody("sql", path, "UPDATE meta SET value = 1", status=1)

    def test_flipped_bytes_do_no_harm(self):
        with open(self.path("whole"), "rb") as file:
            content = file.read()
        chance = random.Random(7)
        for number in range(FLIPS):
            damaged = bytearray(content)
            for _ in range(chance.randrange(1, 200)):
                # Page headers and the schema get more than their share.
                at = chance.randrange(len(damaged))
                if number % 2:
                    at = at // 4096 * 4096 + chance.randrange(64)
                if number % 3 == 0:
                    at %= 16384
                damaged[at] = chance.randrange(256)
            path = self.write("damaged.db", damaged)
            for options in (["--format=json"], []):
                done = custody("report", *options, path, status=None)
                self.assertIn(done.returncode, (0, 1), (number, done.stderr))
                if done.returncode:
                    self.complains(done)


class Sql(Case):
    def sql(self, *arguments, **more):
        return custody("sql", *arguments, **more)

    def test_a_query_gives_its_rows(self):
        done = self.sql("--format=csv", self.path("whole"),
                        "SELECT 1 AS a, 'x,\"y' AS b, NULL AS c")
        self.assertEqual(done.stdout, 'a,b,c\n1,"x,""y",\n')
        done = self.sql("--format=json", self.path("whole"), "SELECT 1 AS a, 1.5 AS b, NULL AS c")
        self.assertEqual(json.loads(done.stdout), {"a": 1, "b": 1.5, "c": None})
        done = self.sql(self.path("whole"), "SELECT 'left' AS word, 12 AS number")
        self.assertEqual(done.stdout.split("\n")[2], "left      12")

    def test_a_blob_is_told_by_its_length_everywhere(self):
        for form in ("csv", "json", "text"):
            told = self.sql("--format=" + form, self.path("whole"), "SELECT x'00ff' AS a").stdout
            self.assertIn("(2 bytes)", told, form)

    def test_statements_come_from_standard_input(self):
        done = self.sql("--format=csv", self.path("whole"),
                        text="SELECT 1 AS a; -- one\nSELECT 2 AS b;\n")
        self.assertEqual(done.stdout, "a\n1\nb\n2\n")

    def test_a_trace_cannot_be_changed(self):
        with open(self.path("whole"), "rb") as file:
            before = file.read()
        for statement in ("DELETE FROM meta", "DROP TABLE meta", "ATTACH 'x' AS y", "VACUUM",
                          "PRAGMA journal_mode = WAL", "PRAGMA user_version = 3",
                          "CREATE TEMP TABLE t (a)", "VACUUM INTO 'x'", "BEGIN IMMEDIATE",
                          "INSERT INTO meta VALUES ('a', 1)", "SELECT load_extension('x')",
                          "PRAGMA writable_schema = 1", "REINDEX", "DETACH main"):
            self.complains(self.sql(self.path("whole"), statement, status=1))
        with open(self.path("whole"), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_mistake_is_shown_where_it_is(self):
        done = self.sql(self.path("whole"), text="SELECT 1;\nSELECT\n  absent FROM meta",
                        status=1)
        self.assertIn("no such column: absent", done.stderr)
        if sqlite3.sqlite_version_info >= (3, 38):
            self.assertIn("line 3, column 3", done.stderr)

    def test_tables_and_schema_are_told(self):
        self.assertIn("transfer_by_kind", self.sql(self.path("whole"), ".tables").stdout)
        self.assertIn("CREATE TABLE meta (", self.sql(self.path("whole"), ".schema").stdout)


class Environment(Case):
    def test_every_variable_is_told_with_its_value(self):
        text = custody("env", CUSTODY_CHILDREN="none").stdout
        line = next(line for line in text.split("\n") if "CUSTODY_CHILDREN" in line)
        self.assertEqual(line.split(), ["CUSTODY_CHILDREN", "all", "none"])
        self.assertIn("CUSTODY_CHILDREN=all|none: ", text)

    def test_a_value_that_cannot_be_parsed_is_marked(self):
        text = custody("env", CUSTODY_BUFFER="much").stdout
        self.assertIn("warning: CUSTODY_BUFFER", text)


if __name__ == "__main__":
    if not os.access(CUSTODY, os.X_OK):
        sys.exit(f"{CUSTODY} is not there; run make first")
    unittest.main(verbosity=1)
