#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What custody merge makes of each column: ids, references and times of all tables."""
import os
import sqlite3
import unittest

import test_merge
from test_merge import SCHEMA, SECOND, WALL

# Every column of time, by the last word before _ns: a new word must be put into one of
# these, and into merge_copy_is_moment() if it is a point in time.
MOMENTS = {"at", "from", "to", "start", "end", "created", "destroyed", "seen", "alloc",
           "requested", "ready", "released", "ended"}
DURATIONS = {"duration", "waited", "saved", "total", "max", "moved"}
DERIVED = {"meta", "ingest", "sample", "peak", "peak_block", "allocation_total", "free_total",
           "pending_total", "transfer_total", "gpu_total", "oom", "oom_holder", "api", "source",
           "source_meta"}


class Columns(test_merge.Case):
    """A trace with a row in every table, each value of which says what it is."""

    def tables(self):
        database = sqlite3.connect(":memory:")
        with open(os.path.join(SCHEMA, "schema.sql")) as schema:
            database.executescript(schema.read())
        names = [row[0] for row in database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
        tables = {}
        for name in names:
            columns = database.execute("SELECT name, type, pk FROM pragma_table_info(?)",
                                       (name,)).fetchall()
            told = dict(database.execute(
                'SELECT "from", "table" FROM pragma_foreign_key_list(?)', (name,)))
            tables[name] = (columns, told)
        return tables

    def target(self, tables, table, column, told):
        if column in told:
            return told[column]
        fits = [name for name in tables if (column == name + "_id" or
                                            column.endswith("_" + name + "_id"))]
        return max(fits, key=len) if fits else None

    def fill(self, name, seed, tables):
        """Two rows a table: ids 11 and 22, references to 22, times of START + n."""
        self.change(name, f"UPDATE process SET pid = {seed}", "none")
        database = sqlite3.connect(self.path(name))
        for table, (columns, told) in tables.items():
            if table in DERIVED:
                continue
            database.execute(f"DELETE FROM {table}")
            for number in (11, 22):
                values = []
                for column, kind, _ in columns:
                    if column == "id":
                        values.append(number)
                    elif column == "source_id":
                        values.append(None)
                    elif self.target(tables, table, column, told) == "api":
                        values.append(3)
                    elif self.target(tables, table, column, told):
                        values.append(22 if number == 22 else 11)
                    elif column.endswith("_ns"):
                        values.append(5 * SECOND + number)
                    elif kind == "TEXT":
                        values.append("device" if column == "kind" else f"{column} {number}")
                    else:
                        values.append(1000 * seed + number)
                marks = ", ".join("?" * len(values))
                database.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        database.execute(f"UPDATE meta SET value = {WALL + seed * SECOND} WHERE key ="
                         " 'wall_offset_ns'")
        database.execute(f"UPDATE meta SET value = 'host {seed}' WHERE key = 'host'")
        database.commit()
        database.close()

    def test_every_column_of_every_table_is_moved_as_it_should(self):
        tables = self.tables()
        self.fill("first", 100, tables)
        self.fill("second", 130, tables)
        self.merge("columns", "first", "second")
        for table, (columns, told) in tables.items():
            if table in DERIVED:
                continue
            rows = self.rows("columns", f"SELECT * FROM {table}")
            self.assertEqual(len(rows), 4, table)
            rows.sort(key=lambda row: [row[name] for name, _, pk in columns
                                       if pk or name.endswith("_id") and row[name] is not None])
            for row, id, moved in zip(rows, (11, 22, 33, 44), (0, 0, 30 * SECOND, 30 * SECOND)):
                number = id if id < 30 else id - 22
                for column, kind, _ in columns:
                    self.check(table, column, row, id, number, moved, kind,
                               self.target(tables, table, column, told))

    def check(self, table, column, row, id, number, moved, kind, target):
        where, value = f"{table}.{column}", row[column]
        if column == "source_id":
            self.assertEqual(value, 1 if id < 30 else 2, where)
        elif target == "api":
            self.assertEqual(value, 3, where)
        elif column == "id" or target:
            self.assertEqual(value, id, where)
        elif column.endswith("_ns"):
            word = column[:-3].split("_")[-1]
            self.assertIn(word, MOMENTS | DURATIONS, f"{where}: a moment, or a duration?")
            self.assertEqual(value, 5 * SECOND + number + (moved if word in MOMENTS else 0),
                             where)
        elif kind != "TEXT":
            self.assertEqual(value % 1000, number, where)


if __name__ == "__main__":
    unittest.main(verbosity=1)
