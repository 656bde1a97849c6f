# SPDX-License-Identifier: Apache-2.0
"""Two GPUs: copies between them, frees of what the other still uses, memory of other
processes, a PyTorch run of two ranks; bare and under each policy of frees.

Called by scripts/gpu-two, whose --help tells the options.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
POLICIES = "immediate", "deferred", "nowait"
LEAST = 64 << 20


class Bench:
    """Where things are, what was found out."""

    def __init__(self, options):
        self.stage = pathlib.Path(options.stage).resolve()
        self.custody = self.first("bin/custody", "custody")
        self.program = self.first("device/two_devices", "tests/device/.libs/two_devices",
                                  "tests/device/two_devices")
        self.preload = self.first("lib/libcustody-preload.so", ".libs/libcustody-preload.so")
        self.simulated = self.first("lib/custody/libcuda-sim", "tests/support/simdriver/lib")
        self.simulate, self.timeout = options.simulate, options.timeout
        self.work = pathlib.Path(options.out).resolve() / time.strftime("work-%H%M%S")
        self.lines, self.wrong = [], []

    def first(self, *places):
        return next((str(self.stage / place) for place in places
                     if (self.stage / place).exists()), None)

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def judge(self, what, is_good, detail=""):
        self.say(f"| {what} | {detail} | {'good' if is_good else '**no**'} |")
        if not is_good:
            self.wrong.append(f"{what}: {detail}")

    def run(self, name, command, policy=None, record=(), **settings):
        """Runs bare, or recorded under a policy; returns what is needed of it."""
        directory = self.work / re.sub(r"[^A-Za-z0-9]+", "-", f"{name} {policy or 'bare'}")
        directory.mkdir(parents=True)
        values = dict(os.environ, JOURNAL=str(directory / "journal"), PYTHONPATH=str(HERE),
                      PYTHONDONTWRITEBYTECODE="1", NCCL_NVLS_ENABLE="0", **settings)
        trace = str(directory / "trace.db")
        if self.simulate:
            values.update(SIMCUDA_DEVICES="2", TWO_SMALL="1")
            if not policy:
                values["LD_LIBRARY_PATH"] = self.simulated
        if policy:
            simulate = ["--simulate"] if self.simulate else []
            command = [self.custody, "record", "-q", "-f", "-o", trace, f"--frees={policy}",
                       *record, *simulate, "--", *command]
        begin = time.monotonic()
        try:
            done = subprocess.run(command, env=values, cwd=directory, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=self.timeout, check=False)
            status, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            status, out, err = "timeout", late.stdout or b"", late.stderr or b""
        (directory / "stderr").write_bytes(err)
        path = directory / "journal"
        rows = map(json.loads, path.read_text("ascii").splitlines()) if path.exists() else []
        return Run(status, out, err.decode("utf-8", "replace"), list(rows), trace,
                   time.monotonic() - begin)

    def sql(self, trace, query):
        """Rows of one column, split at its bars."""
        done = subprocess.run([self.custody, "sql", trace, query], capture_output=True, text=True,
                              check=False)
        return [line.strip()[4:].split("|") for line in done.stdout.splitlines()
                if line.strip().startswith("row=")]

    def ledger(self, trace):
        done = subprocess.run([self.custody, "report", "--format=json", trace],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["memory"].get("ledger") or [] if not done.returncode else []

    def same(self, name, run, bare):
        self.judge(f"{name}: exit status", run.status == bare.status == 0,
                   f"{run.status}, bare {bare.status}")
        self.judge(f"{name}: output as bare", run.output == bare.output and bare.output,
                   f"{len(run.output.splitlines())} lines")


Run = collections.namedtuple("Run", "status output errors journal trace seconds")

P2P = ("SELECT 'row='||a.name||'|'||s.uuid||'|'||t.uuid||'|'||sum(x.bytes)||'|'||sum(x.copies)"
       "||'|'||sum(x.gpu_duration_ns IS NOT NULL) FROM transfer x JOIN api a ON a.id = x.api_id "
       "JOIN device s ON s.id = x.source_device_id JOIN device t ON t.id = x.target_device_id "
       "WHERE x.kind = 'P2P' AND x.result = 0 GROUP BY a.name, s.uuid, t.uuid ORDER BY 1")


def plain_uuid(text):
    return text.lower().replace("gpu-", "")


def check_peer(bench):
    """Kind, devices and bytes of each form of copy, by UUID, also with the devices swapped."""
    for swap in (False, True) if not bench.simulate else (False,):
        settings = {"CUDA_VISIBLE_DEVICES": "1,0"} if swap else {}
        label = "copies, devices swapped" if swap else "copies"
        bare = bench.run(label, [bench.program, "peer"], **settings)
        if bare.status == SKIPPED:
            bench.judge(label, False, "there are no two devices")
            return
        for policy in POLICIES if not swap else ("deferred",):
            gpu_times = ("--gpu-times",) if policy == "deferred" and not bench.simulate else ()
            run = bench.run(label, [bench.program, "peer"], policy, gpu_times, **settings)
            bench.same(f"{label}, {policy}", run, bare)
            wanted = collections.Counter()
            for row in run.journal:
                wanted[row["api"], row["source"], row["target"]] += row["bytes"]
            found, timed, count = collections.Counter(), 0, 0
            for name, source, target, size, copies, times in bench.sql(run.trace, P2P):
                found[name, plain_uuid(source), plain_uuid(target)] += int(size)
                timed, count = timed + int(times), count + int(copies)
            bench.judge(f"{label}, {policy}: kind, devices and bytes", found == wanted and wanted,
                        f"{len(found)} of {len(wanted)} sums, {count} copies"
                        + ("" if found == wanted else f"; {dict(wanted - found)} wanted, "
                           f"{dict(found - wanted)} found"))
            if gpu_times:
                bench.judge(f"{label}, {policy}: GPU times", timed == count, f"{timed} of {count}")


def check_frees(bench):
    bare = bench.run("frees", [bench.program, "frees"])
    for line in bare.errors.splitlines():
        bench.say(f"| frees, bare | {line} | |")
    for policy in POLICIES:
        run = bench.run("frees", [bench.program, "frees"], policy)
        for line in run.errors.splitlines():
            bench.say(f"| frees, {policy} | {line} | |")
        bench.same(f"frees, {policy}", run, bare)


COMPLETE = "SELECT 'row='||value FROM meta WHERE key = 'complete'"
OWNED = ("SELECT 'row='||sum(bytes)||'|'||count(DISTINCT process_id) FROM allocation "
         "WHERE bytes = 25165824 AND parent_id IS NULL AND kind <> 'ipc' AND kind <> 'external'")
SHARED = ("SELECT 'row='||count(*)||'|'||coalesce(sum(footprint_bytes), 0) FROM allocation "
          "WHERE kind = 'ipc'")


def judge_owners(bench, label, trace):
    """Two blocks of the exporter's, two of the importer's own, two that it opened."""
    owned, shared = bench.sql(trace, OWNED), bench.sql(trace, SHARED)
    bench.judge(f"{label}: each byte has one owner",
                owned == [[str(4 * 25165824), "2"]] and shared == [["2", "0"]],
                f"owned {owned}, opened {shared}")


def check_ipc(bench):
    bare = bench.run("ipc", [bench.program, "ipc"])
    for policy in POLICIES:
        run = bench.run("ipc", [bench.program, "ipc"], policy)
        bench.judge(f"ipc, {policy}: exit status and output",
                    run.status == bare.status == 0 and sorted(run.output.splitlines()) ==
                    sorted(bare.output.splitlines()), f"{run.status}")
        judge_owners(bench, f"ipc, {policy}", run.trace)
        check_ipc_apart(bench, policy)


def check_ipc_apart(bench, policy):
    """Exporter and importer have a trace each, of a bare preload, and are merged later."""
    label = f"ipc, {policy}, two traces"
    run = bench.run(f"ipc apart {policy}", [bench.program, "ipc"], LD_PRELOAD=bench.preload,
                    CUSTODY_OUTPUT="part-%p.db", CUSTODY_FREES=policy)
    where = pathlib.Path(run.trace).parent
    for _ in range(300):
        parts = sorted(where.glob("part-*.db"))
        if len(parts) == 2 and all(bench.sql(str(part), COMPLETE) == [["1"]] for part in parts):
            break
        time.sleep(0.1)
    merged = subprocess.run([bench.custody, "merge", "-q", "-o", run.trace, *map(str, parts)],
                            capture_output=True, text=True, check=False)
    bench.judge(f"{label}: merged", run.status == 0 and len(parts) == 2 and
                merged.returncode == 0, f"{run.status}, {len(parts)} parts {merged.stderr}")
    judge_owners(bench, label, run.trace)


def check_ddp(bench):
    command = ["python3", str(HERE / "ddp_train.py")]
    bare = bench.run("ddp", command)
    for policy in ("deferred", "nowait"):
        run = bench.run("ddp", command, policy)
        bench.same(f"ddp, {policy}", run, bare)
        peaks = bench.sql(run.trace, "SELECT 'row='||p.pid||'|'||d.uuid||'|'||k.bytes FROM peak k "
                          "JOIN process p ON p.id = k.process_id JOIN device d ON d.id = "
                          "k.device_id WHERE k.bytes > 0 ORDER BY k.bytes")
        for pid, uuid, size in peaks:
            bench.say(f"| ddp, {policy}: peak of process {pid} on {uuid} | "
                      f"{int(size) / (1 << 20):,.1f} MiB | |")
        bench.judge(f"ddp, {policy}: a peak for each rank and device",
                    len({row[1] for row in peaks}) == 2, f"{len(peaks)} peaks")
        nccl = bench.sql(run.trace, "SELECT 'row='||m.path||'|'||sum(a.bytes) FROM allocation a "
                         "JOIN module m ON m.process_id = a.process_id AND a.caller BETWEEN m.base "
                         "AND m.base + m.size - 1 WHERE a.parent_id IS NULL AND a.kind NOT IN "
                         "('pinned', 'registered', 'ipc') GROUP BY m.path ORDER BY 1")
        for path, size in nccl:
            bench.say(f"| ddp, {policy}: device bytes asked for by {os.path.basename(path)} | "
                      f"{int(size) / (1 << 20):,.1f} MiB | |")
        rows = [row for row in bench.ledger(run.trace) if row["used_bytes"] > LEAST]
        bench.judge(f"ddp, {policy}: ledgers of two devices", len(rows) >= 4, f"{len(rows)} rows")
        for row in rows:
            left, used = row["unaccounted_bytes"] or 0, row["used_bytes"]
            bench.judge(f"ddp, {policy}: ledger, device {row['device']}, process "
                        f"{row['process_id']}, {row['moment']}",
                        abs(left) <= max(LEAST, used / 100),
                        f"{left / (1 << 20):,.1f} MiB of {used / (1 << 20):,.1f} unaccounted")
        check_merge(bench, policy, run)


def check_merge(bench, policy, run):
    """The two processes' peaks are also there when their trace is merged with another."""
    merged = str(pathlib.Path(run.trace).with_name("merged.db"))
    other = bench.run(f"merged, {policy}", [bench.program, "peer"], policy)
    done = subprocess.run([bench.custody, "merge", "-f", "-o", merged, run.trace, other.trace],
                          capture_output=True, text=True, check=False)
    count = "SELECT 'row='||count(*)||'|'||coalesce(sum(bytes),0) FROM allocation"
    parts = [list(map(int, bench.sql(trace, count)[0])) for trace in (run.trace, other.trace)]
    whole = [list(map(int, row)) for row in bench.sql(merged, count)]
    devices = bench.sql(merged, "SELECT 'row='||count(DISTINCT uuid) FROM device")
    bench.judge(f"merged, {policy}: the sum of its parts",
                done.returncode == 0 and whole == [[sum(x) for x in zip(*parts)]]
                and devices == [["2"]], f"{whole}, parts {parts}, devices {devices} {done.stderr}")


CHECKS = {"peer": check_peer, "frees": check_frees, "ipc": check_ipc, "ddp": check_ddp}


def main():
    parser = argparse.ArgumentParser(prog="gpu-two", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--only", default="peer,frees,ipc,ddp", help="parts [%(default)s]")
    parser.add_argument("--out", default="gpu-two-out", help="results go here [%(default)s]")
    parser.add_argument("--timeout", type=int, default=100, help="seconds a run [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="on two simulated devices; runs what can run there")
    options = parser.parse_args()
    bench = Bench(options)
    if not bench.custody or not bench.program:
        print(f"gpu-two: nothing built in {options.stage}", file=sys.stderr)
        return 1
    if not options.simulate and bench.run("look", [bench.program, "peer"]).status == SKIPPED:
        print("gpu-two: no two GPUs that work here; skipped", file=sys.stderr)
        return SKIPPED
    bench.say("| what | found | |")
    bench.say("| --- | --- | --- |")
    for name in options.only.split(","):
        if name != "ddp" or not options.simulate:
            begin = time.monotonic()
            CHECKS[name](bench)
            print(f"({name} took {time.monotonic() - begin:.1f} s)", flush=True)
    (pathlib.Path(options.out) / "gpu-two.md").write_text("\n".join(bench.lines) + "\n")
    print("\n".join(["", *(f"* {line}" for line in bench.wrong)]))
    if not bench.wrong:
        shutil.rmtree(bench.work, ignore_errors=True)
    return 1 if bench.wrong else 0


sys.exit(main())
