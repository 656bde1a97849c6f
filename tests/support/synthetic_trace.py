#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a trace that no program made, and prints what a report of it must say.

usage: synthetic_trace.py [--allocations N] [--transfers N] [--seed N]
                          [--policy immediate|deferred|nowait] [--incomplete] [--clean]
                          SCHEMA-DIRECTORY OUT.db

The sums are kept here, row by row and without SQL, so that the report's own
arithmetic is checked against another one.  --incomplete leaves out all that is
made when recording ends; --clean frees every block.  Under a policy that puts
frees off, those of plain and of page-locked memory are pending for a while.
"""
import argparse
import collections
import heapq
import json
import os
import random
import sqlite3

KIB, MIB = 1 << 10, 1 << 20
START = 5_000_000_000
LIBRARIES = ["/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6", "/opt/app/lib/libengine.so.2",
             "/opt/app/lib/a-directory-with-a-long-name/libcudart.so.13.0.96"]
APIS = ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemsetD8Async", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemHostAlloc", "cuMemFreeHost",
        "cuLaunchKernel", "cuMemcpyHtoDAsync_v2"]
KINDS = {"device": (1, 2), "pool": (6, 7), "pinned": (8, 9)}
WAYS = [("H2D", 3, 0, "pageable", "device"), ("H2D", 11, 1, "pinned", "device"),
        ("D2H", 4, 1, "device", "pageable"), ("MEMSET", 5, 1, None, "device")]


def about(times, part):
    """The value that `part` of a hundred do not exceed, as exact as a trace keeps it."""
    if not times:
        return 0
    value = times[-(-len(times) * part // 100) - 1]
    power = max(0, value.bit_length() - 11)
    return value >> power << power


def size_class(size):
    return size.bit_length() - 1


class Trace:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.live = {"device": 0, "pool": 0, "pinned": 0}
        self.pending = {"device": 0, "pool": 0, "pinned": 0}
        self.pending_peak = self.held_peak = 0
        self.waits = []
        self.frees = collections.defaultdict(lambda: [0] * 9)
        self.pending_times = []
        self.peak = (0, None)
        self.now = START
        self.totals = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
        self.calls = collections.defaultdict(lambda: [0, 0, 0, 0])
        self.samples = {}
        self.ends = []
        self.leaks = collections.Counter()
        self.expect = collections.Counter()
        if os.path.exists(arguments.output):
            os.remove(arguments.output)
        self.db = sqlite3.connect(arguments.output)
        self.db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        with open(os.path.join(arguments.schema, "schema.sql")) as schema:
            self.db.executescript(schema.read())

    def insert(self, table, **columns):
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        self.db.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", list(columns.values()))

    def write_identity(self):
        for key, value in (("schema_version", 1), ("custody_version", "0.1.0"), ("host", "bench"),
                           ("wall_offset_ns", 1_790_000_000 * 10**9), ("clock", "tsc"),
                           ("complete", 0)):
            self.insert("meta", key=key, value=value)
        self.insert("process", id=1, pid=4711, exec_serial=0, executable=LIBRARIES[0],
                    arguments="python3 train.py --epochs 3", start_ns=START, exit_status=0,
                    driver_version=13000, policy=self.arguments.policy)
        self.insert("device", id=1, process_id=1, ordinal=0, uuid="GPU-1", name="NVIDIA H200",
                    total_bytes=139 << 30)
        self.insert("context", id=1, process_id=1, device_id=1, handle=77, is_primary=1)
        self.insert("thread", id=1, process_id=1, tid=4711, name="python3")
        for number, path in enumerate(LIBRARIES):
            self.insert("module", process_id=1, path=path, base=(number + 1) << 32, size=1 << 30,
                        seen_ns=START)
        for number, name in enumerate(APIS):
            self.insert("api", id=number + 1, name=name)

    def caller(self):
        library = self.random.choice((1, 2, 3, 3))
        return ((library + 1) << 32) + 0x1000 + self.random.randrange(12) * 0x140

    def call(self, api, duration, failed=False):
        sums = self.calls[api]
        sums[0] += 1
        sums[1] += failed
        sums[2] += duration
        sums[3] = max(sums[3], duration)

    def change(self, kind, size, at, pending=0):
        self.live[kind] += size
        self.pending[kind] += pending
        waiting = self.pending["device"] + self.pending["pool"]
        used = self.live["device"] + self.live["pool"]
        self.pending_peak = max(self.pending_peak, waiting)
        self.held_peak = max(self.held_peak, used + waiting)
        if used > self.peak[0]:
            self.peak = (used, at)
        run_ns = self.arguments.allocations * 4000 + self.arguments.transfers * 3000
        at = START + (at - START) // (run_ns // 500 + 1) * (run_ns // 500 + 1)
        sample = self.samples.setdefault((at, kind), [0, 0])
        sample[0] = max(sample[0], self.live[kind])
        sample[1] = max(sample[1], self.pending[kind])

    def release_until(self, at):
        while self.ends and self.ends[0][0] <= at:
            end, size, pending, kind = heapq.heappop(self.ends)
            self.change(kind, size, end, pending)

    def free(self, kind, size, at, took, number):
        """When the block is back, why, and what of its free waited, was ready and was saved."""
        caller = ((self.random.choice((1, 2, 3)) + 1) << 32) + 0x7000
        sums = self.frees[KINDS[kind][1], caller]
        sums[0] += 1
        sums[1] += took
        sums[2] = max(sums[2], took)
        # Where frees wait, what is not plain memory goes to the driver when they have waited.
        if kind not in {"immediate": (), "deferred": ("device",),
                        "nowait": ("device", "pinned")}[self.arguments.policy]:
            sums[8] += took
            heapq.heappush(self.ends, (at, -size, 0, kind))
            return at, "freed", None, None, caller
        waited = took - 100 if self.arguments.policy == "deferred" else 0
        ready = at + waited + self.random.randrange(1, 900_000)
        back = ready + self.random.randrange(1, 100_000)
        self.pending_times.append(back - at - waited)
        heapq.heappush(self.ends, (at + waited, -size, size, kind))
        heapq.heappush(self.ends, (back, 0, -size, kind))
        sums[3] += 1
        sums[4] += size
        sums[5] += waited
        sums[6] = max(sums[6], waited)
        if self.arguments.policy == "nowait":
            self.waits.append((at, ready, number, sums))
        return back, self.random.choice(("count", "bytes", "idle")), waited, ready, caller

    def allocation(self, number):
        kind = self.random.choices(("device", "pool", "pinned"), (6, 3, 1))[0]
        size = self.random.choice((512, 4 * KIB, 64 * KIB, MIB, 20 * MIB))
        size += self.random.randrange(64)
        took, freed = self.random.randrange(500, 5000), self.random.randrange(300, 4000)
        self.now += 4000
        born = self.now + took
        self.release_until(born)
        self.change(kind, size, born)
        lives = not self.arguments.clean and self.random.random() < 0.0005
        end = None if lives else born + int(self.random.expovariate(1 / 4_000_000)) + 1
        caller = self.caller()
        back, cause, waited, ready, free_caller = (
            self.free(kind, size, end, freed, number + 1) if end else (None,) * 5)
        self.expect.update(allocations=1, allocated_bytes=size, frees=not lives)
        self.call(KINDS[kind][0], took)
        if end:
            self.call(KINDS[kind][1], freed)
        else:
            self.leaks[kind] += size
        footprint = (size + 511) // 512 * 512 if size <= MIB else -(-size // (2 * MIB)) * 2 * MIB
        return (1, kind, (number + 1) << 12, size, 0 if kind == "pinned" else footprint,
                None if kind == "pinned" else 1, 1, 1, KINDS[kind][0], self.now, took,
                KINDS[kind][1] if end else None, 1 if end else None, end,
                freed if end else None, back, cause, caller, waited, ready, free_caller)

    def write_allocations(self):
        self.db.executemany(
            "INSERT INTO allocation(process_id, kind, address, bytes, footprint_bytes, device_id,"
            " context_id, thread_id, api_id, alloc_ns, alloc_duration_ns, free_api_id,"
            " free_thread_id, free_requested_ns, free_duration_ns, released_ns, release_cause,"
            " caller, free_waited_ns, ready_ns, free_caller)"
            " VALUES (" + ", ".join("?" * 21) + ")",
            (self.allocation(number) for number in range(self.arguments.allocations)))
        self.release_until(1 << 62)
        self.write_saved()

    def write_saved(self):
        """Of overlapping waits of the one thread, what an earlier one covers counts there."""
        covered = 0
        for at, ready, number, sums in sorted(self.waits, key=lambda wait: wait[:3]):
            saved = max(0, ready - max(at, covered))
            covered = max(covered, ready)
            sums[7] += saved
            self.db.execute("UPDATE allocation SET free_saved_ns = ? WHERE id = ?",
                            (saved, number))

    def write_flushes(self):
        if self.arguments.policy == "immediate":
            return
        for number, cause in enumerate(("count", "count", "bytes")):
            self.insert("flush", process_id=1, context_id=1, thread_id=1, queue="memory",
                        cause=cause, count=11, bytes=4096 * (number + 1), failed=number == 2,
                        start_ns=START + number * 1000, duration_ns=300 * (number + 1),
                        waited_ns=50 * number)

    def transfer(self, site, way):
        kind, api, is_async, source, target = way
        size = 1 << self.random.randrange(2, 25)
        took = 900 + (0 if is_async else size // 20)
        failed = self.random.random() < 0.0001
        self.now += 3000
        sums = self.totals[(way, site[1], size_class(size))]
        sums[0] += 1
        sums[1] += 0 if failed else size
        sums[2] += took
        sums[3] = max(sums[3], took)
        sums[4] += failed
        self.call(api, took, failed)
        return failed, size, took

    def write_transfers(self):
        sites = []
        for way in WAYS:
            for caller in range(6):
                for result in (0, 700):
                    address = (4 << 32) + 0x900 + caller * 0x80
                    sites.append((len(sites) + 1, address, way, result))
                    self.insert("transfer_site", id=len(sites), process_id=1, kind=way[0],
                                api_id=way[1], is_async=way[2], source_kind=way[3],
                                target_kind=way[4], target_device_id=1, context_id=1,
                                caller=address, result=result, is_captured=0)

        def rows():
            good = [site for site in sites if not site[3]]
            for _ in range(self.arguments.transfers):
                site = self.random.choice(good)
                failed, size, took = self.transfer(site, site[2])
                if failed:
                    self.insert("failure", process_id=1, origin="program", api_id=site[2][1],
                                result=700, bytes=size, at_ns=self.now, thread_id=1)
                yield site[0] + failed, 1, size, self.now, took, 1 << 20, 1 << 21
        self.db.executemany(
            "INSERT INTO transfer_row(site_id, thread_id, bytes, start_ns, duration_ns,"
            " source_address, target_address) VALUES (?, ?, ?, ?, ?, ?, ?)", rows())

    def write_totals(self):
        peak_bytes, peak_ns = self.peak
        if peak_ns is not None:
            for process, device in ((1, 1), (1, None), (None, None)):
                self.insert("peak", process_id=process, device_id=device, at_ns=peak_ns,
                            bytes=peak_bytes, pending_peak_bytes=self.pending_peak,
                            held_peak_bytes=self.held_peak)
        for (at, kind), (size, pending) in sorted(self.samples.items()):
            self.insert("sample", at_ns=at, process_id=1, kind=kind, live_bytes=size,
                        device_id=None if kind == "pinned" else 1, pending_bytes=pending)
        self.db.execute(
            "INSERT INTO peak_block SELECT process_id, device_id, id FROM allocation"
            " WHERE kind <> 'pinned' AND alloc_ns + alloc_duration_ns <= ?1"
            " AND (released_ns IS NULL OR released_ns > ?1)"
            " AND (free_waited_ns IS NULL OR free_requested_ns + free_waited_ns > ?1)",
            (peak_ns,))
        self.db.execute("INSERT INTO peak_block SELECT NULL, NULL, allocation_id FROM peak_block")
        for (way, caller, power), sums in self.totals.items():
            kind, api, is_async, source, target = way
            self.insert("transfer_total", process_id=1, kind=kind, api_id=api, source_kind=source,
                        target_kind=target, target_device_id=1, size_class=power,
                        is_async=is_async, caller=caller, count=sums[0], bytes=sums[1],
                        host_ns=sums[2], max_ns=sums[3], failed=sums[4])
        for api, sums in self.calls.items():
            self.insert("api_call", process_id=1, api_id=api, thread_id=1, calls=sums[0],
                        errors=sums[1], total_ns=sums[2], max_ns=sums[3])
        self.db.execute("UPDATE meta SET value = 1 WHERE key = 'complete'")
        with open(os.path.join(self.arguments.schema, "schema_end.sql")) as schema:
            self.db.executescript(schema.read())

    def write(self):
        self.db.execute("BEGIN")
        self.write_identity()
        self.write_allocations()
        self.write_transfers()
        self.write_flushes()
        self.db.execute("UPDATE process SET end_ns = ?", (self.now + 5_000_000,))
        self.db.commit()
        if not self.arguments.incomplete:
            self.write_totals()
        self.db.commit()
        self.db.close()

    def expected(self):
        by_kind = collections.defaultdict(lambda: {"count": 0, "bytes": 0, "host_ns": 0})
        for (way, _, _), sums in self.totals.items():
            for index, key in enumerate(("count", "bytes", "host_ns")):
                by_kind[way[0]][key] += sums[index]
        covered, union = 0, 0
        for at, ready, *_ in sorted(wait[:2] for wait in self.waits):
            union += max(0, ready - max(at, covered))
            covered = max(covered, ready)
        waiting = [sums for (api, _), sums in self.frees.items() if api != KINDS["pool"][1]]
        times = sorted(self.pending_times)
        policy = self.arguments.policy
        host_ns, waited_ns, forwarded_ns = (sum(sums[i] for sums in waiting) for i in (1, 5, 8))
        flush_waited_ns = 0 if policy == "immediate" else 150
        return {
            "frees": {
                "policy": policy, "calls": sum(sums[0] for sums in waiting), "host_ns": host_ns,
                "longest_ns": max((sums[2] for sums in waiting), default=0),
                "deferred": len(times), "deferred_bytes": sum(sums[4] for sums in waiting),
                "free_waited_ns": waited_ns, "flush_waited_ns": flush_waited_ns,
                "waited_ns": waited_ns + flush_waited_ns,
                "longest_flush_ns": 0 if policy == "immediate" else 900,
                "failed_releases": int(policy != "immediate"),
                "nowait_at_most_ns": {"immediate": host_ns, "deferred": waited_ns + forwarded_ns,
                                      "nowait": union}[policy],
                "pending_longest_ns": times[-1] if times else 0,
                "pending_median_ns": about(times, 50), "pending_p99_ns": about(times, 99),
            },
            "memory": {
                "pending_peak_bytes": self.pending_peak, "held_peak_bytes": self.held_peak,
                "peak_bytes": self.peak[0], "peak_at_ns": self.peak[1],
                "live_at_exit_bytes": self.leaks["device"] + self.leaks["pool"],
                "host_live_at_exit_bytes": self.leaks["pinned"],
                **{key: int(value) for key, value in self.expect.items()},
            },
            "transfers": {"by_kind": by_kind},
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--allocations", type=int, default=2000)
    parser.add_argument("--transfers", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--incomplete", action="store_true")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--policy", default="immediate",
                        choices=("immediate", "deferred", "nowait"))
    parser.add_argument("schema")
    parser.add_argument("output")
    trace = Trace(parser.parse_args())
    trace.write()
    print(json.dumps(trace.expected(), indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
