# SPDX-License-Identifier: Apache-2.0
"""GPU times on this machine's GPU: what CUPTI says of copies against events around
them, every transfer joined, every kernel counted, also of PyTorch and of JAX, with
and without a profiler of their own; and what asking for them costs a step.

Called by scripts/gpu-times, whose --help tells the options.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
NEAR = 0.02
UNJOINED = ("SELECT count(*) FROM transfer WHERE NOT is_captured AND NOT result"
            " AND kind <> 'PREFETCH' AND gpu_start_ns IS NULL")


class Trace:
    def __init__(self, custody, path):
        self.custody, self.path = custody, str(path)

    def row(self, sql):
        """The first row, a list of texts; NULL is ''."""
        done = subprocess.run([self.custody, "sql", "--format=csv", self.path, sql],
                              capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        return lines[1].split(",") if len(lines) > 1 else [done.stderr.strip()]

    def number(self, sql):
        value = self.row(sql)[0]
        return int(value) if re.fullmatch(r"-?\d+", value) else value


class Checks:
    """What was looked at, as rows of a table; `failed` counts what is not as it should be."""

    def __init__(self):
        self.rows, self.failed = [], 0

    def add(self, what, wanted, found, is_good):
        wanted, found = ("; ".join(str(text).split("\n")).rstrip("; ") for text in (wanted, found))
        self.rows.append(f"| {what} | {wanted} | {found} | {'good' if is_good else '**no**'} |")
        self.failed += not is_good
        print(self.rows[-1], flush=True)

    def equal(self, what, wanted, found):
        self.add(what, wanted, found, wanted == found)

    def note(self, what, found):
        self.add(what, "", found, True)


class Bench:
    def __init__(self, options):
        stage = pathlib.Path(options.stage).resolve()
        first = [stage / "bin/custody", stage / "custody"]
        self.custody = str(next(path for path in first if path.exists()))
        self.program = next((str(path) for path in
                             (stage / "device/gpu_times", stage / "tests/device/.libs/gpu_times",
                              stage / "tests/device/gpu_times") if path.exists()), None)
        self.work = pathlib.Path(options.out).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.small = ["8", "3"] if options.simulate else []
        self.timeout = options.timeout

    def run(self, name, command, record=None, **settings):
        """Bare, or recorded with these options; the finished process, its trace, seconds."""
        trace = Trace(self.custody, self.work / (name + ".db"))
        words = command
        if record is not None:
            words = [self.custody, "record", "-q", "-f", "-o", trace.path, *record, "--", *command]
        values = dict(os.environ, PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1", **settings)
        begin = time.monotonic()
        done = subprocess.run(words, env=values, capture_output=True, text=True, check=False,
                              timeout=self.timeout)
        seconds = time.monotonic() - begin
        (self.work / (name + ".txt")).write_text(done.stdout + "\n" + done.stderr)
        return done, trace, seconds


def check_copies(bench, checks):
    done, trace, _ = bench.run("copies", [bench.program, *bench.small], ["--gpu-times"])
    checks.equal("copies: exit status", 0, done.returncode)
    checks.equal("copies: standard error", "", done.stderr.strip())
    expected = dict(re.findall(r"^expected (\w+) (\d+)", done.stdout, re.M))
    for kind, size, ns in re.findall(r"^reference (\w+) (\d+) (\d+)", done.stdout, re.M):
        found = trace.row("SELECT sum(bytes) * 1.0 / sum(gpu_duration_ns) FROM (SELECT * FROM"
                          f" transfer WHERE kind = '{kind}' AND bytes > 1000000"
                          " ORDER BY id LIMIT 1000 OFFSET 1)")[0]
        rate, wanted = float(found or 0), int(size) / max(1, int(ns))
        checks.add(f"copies: {kind}, GB/s by events", f"{wanted:.2f}", f"{rate:.2f}",
                   abs(rate / wanted - 1) <= NEAR)
    checks.equal("copies: transfers without GPU times", 0, trace.number(UNJOINED))
    checks.equal("copies: work of no known call", 0, trace.number(
        "SELECT count(*) FROM gpu_work WHERE kind IN ('copy', 'memset') AND transfer_id IS NULL"))
    checks.equal("copies: kernels", int(expected["kernels"]) + int(expected["launches"]),
                 trace.number("SELECT count(*) FROM gpu_work WHERE name = '_Z7nothingv'"))
    checks.equal("copies: rows of launches of a graph", 3 * int(expected["launches"]),
                 trace.number("SELECT count(gpu_start_ns) FROM transfer t JOIN api a"
                              " ON a.id = t.api_id WHERE a.name LIKE 'cuGraphLaunch%'"))
    checks.equal("copies: of a batch in all directions", int(expected["batched"]), trace.number(
        "SELECT count(gpu_start_ns) FROM transfer t JOIN api a ON a.id = t.api_id"
        " WHERE a.name LIKE 'cuMemcpyBatch%'"))
    checks.equal("copies: to a second device", int(expected.get("peer", 0)), trace.number(
        "SELECT count(gpu_start_ns) FROM transfer WHERE kind = 'P2P'"))
    migrated = trace.number("SELECT sum(bytes) FROM gpu_work WHERE kind = 'migration'")
    checks.note(f"copies: bytes migrated, of {expected['migrated']} touched", migrated)
    checks.equal("copies: work ahead of its call, by more than 100 us", 0, trace.number(
        "SELECT count(*) FROM transfer WHERE gpu_start_ns < start_ns - 100000"))
    report = subprocess.run([bench.custody, "report", "--transfers", trace.path],
                            capture_output=True, text=True, check=False).stdout
    (bench.work / "report.txt").write_text(report)


def check_python(bench, checks, script, settings):
    """A framework without a profiler: same output as bare, all joined."""
    name = script.replace(".py", "")
    command = ["python3", str(HERE / script)]
    bare, _, bare_seconds = bench.run(name + "-bare", command, **settings)
    if bare.returncode:
        checks.note(f"{name}: not on this machine", bare.stderr.strip()[-80:])
        return
    _, plain, plain_seconds = bench.run(name + "-plain", command, [], **settings)
    done, trace, seconds = bench.run(name + "-timed", command, ["--gpu-times"], **settings)
    checks.equal(f"{name}: exit status", bare.returncode, done.returncode)
    checks.equal(f"{name}: output as bare", True, bare.stdout == done.stdout)
    checks.equal(f"{name}: standard error as bare", len(bare.stderr.splitlines()),
                 len(done.stderr.splitlines()))
    total = trace.number("SELECT count(*) FROM transfer")
    checks.equal(f"{name}: of {total} transfers without GPU times", 0, trace.number(UNJOINED))
    launches = trace.number("SELECT sum(calls - errors) FROM api_total WHERE name LIKE 'cuLaunch%'"
                            " AND name NOT LIKE '%HostFunc%'")
    kernels = trace.number("SELECT count(*) FROM gpu_work WHERE kind = 'kernel'")
    graphs = trace.number("SELECT count(*) FROM operation o JOIN api a ON a.id = o.api_id"
                          " WHERE a.name LIKE 'cuGraphLaunch%'")
    checks.add(f"{name}: kernels, of as many launches ({graphs} of graphs)", launches, kernels,
               kernels >= launches if graphs else kernels == launches)
    checks.note(f"{name}: calls recorded without and with GPU times", "%s, %s" % tuple(
        one.number("SELECT sum(calls) FROM api_total") for one in (plain, trace)))
    checks.note(f"{name}: records lost", trace.number("SELECT coalesce(sum(count), 0) FROM gap"))
    checks.note(f"{name}: seconds bare, recorded, with GPU times",
                f"{bare_seconds:.1f}, {plain_seconds:.1f}, {seconds:.1f}")


def check_profiler(bench, checks):
    """PyTorch's own profiler: it sees what it sees bare, and we say one sentence."""
    command = ["python3", str(HERE / "torch_profiler.py")]
    bare, _, _ = bench.run("profiler-bare", command)
    if bare.returncode:
        checks.note("torch profiler: not on this machine", bare.stderr.strip()[-80:])
        return
    done, trace, _ = bench.run("profiler-timed", command, ["--gpu-times"])
    checks.equal("torch profiler: exit status", 0, done.returncode)
    checks.equal("torch profiler: sees what it sees bare", bare.stdout, done.stdout)
    said = [line for line in done.stderr.splitlines() if line.startswith("custody:")]
    checks.add("torch profiler: sentences of ours", "at most 1", "; ".join(said), len(said) <= 1)
    checks.note("torch profiler: transfers with GPU times, of all", trace.row(
        "SELECT count(gpu_start_ns) || ' of ' || count(*) FROM transfer")[0])


def main():
    parser = argparse.ArgumentParser(prog="gpu-times", description=__doc__)
    parser.add_argument("--stage", default=".stage", help="made by scripts/gpu-stage [%(default)s]")
    parser.add_argument("--out", default="gpu-times-out", help="results go here [%(default)s]")
    parser.add_argument("--only", default="copies,torch,graph,jax,profiler",
                        help="parts [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="small copies, for the simulated driver and its CUPTI")
    parser.add_argument("--timeout", type=int, default=200, help="seconds a run [%(default)s]")
    options = parser.parse_args()
    bench, checks = Bench(options), Checks()
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                      check=False).returncode:
        print("gpu-times: no GPU that works here; skipped", file=sys.stderr)
        return SKIPPED
    parts = options.only.split(",")
    if "copies" in parts:
        check_copies(bench, checks)
    for part, script in (("torch", "torch_train.py"), ("graph", "torch_graph.py"),
                         ("jax", "jax_train.py")):
        if part in parts:
            check_python(bench, checks, script, {"STEPS": "200", "JOURNAL": os.devnull})
    if "profiler" in parts:
        check_profiler(bench, checks)
    text = "\n".join(["| what | wanted | found | |", "| --- | --- | --- | --- |", *checks.rows])
    (bench.work / "gpu-times.md").write_text(text + "\n")
    (bench.work / "gpu-times.json").write_text(json.dumps({"failed": checks.failed}))
    print(f"{checks.failed} of {len(checks.rows)} are not as they should be")
    return 1 if checks.failed else 0


sys.exit(main())
