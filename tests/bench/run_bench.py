# SPDX-License-Identifier: Apache-2.0
"""Measures what custody adds, always side by side in one run: to one driver
call, to a PyTorch training step, to the start of a process without CUDA.

Called by scripts/gpu-bench, whose --help tells the options.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from common import HERE, Tools, has_gpu, median_interval
import frees
import peers
import resources

VARIANTS = "bare", "nop", "record"
ANYWHERE = "start", "calls", "before", "free", "gap", "wait", "resources"


# ------------------------------------------------------------------ one call


class Calls:
    """bench_calls under each variant by turns, some rounds."""

    def __init__(self, tools, options, names, driver, threads, rounds, calls, pairs):
        self.tools, self.options, self.driver = tools, options, driver
        self.names = names
        self.threads, self.rounds = threads, rounds
        self.command = [tools.calls, "-t", str(threads), "-n", str(calls), "-p", str(pairs)]
        self.seen = {}  # case -> variant -> the rounds' [median, mean, direct median, direct mean]
        self.driver_calls = {}
        self.lost = 0

    def run_one(self, variant):
        trace = str(pathlib.Path(self.options.out) / "bench-calls.db")
        command, values = self.tools.wrap(variant, self.command, trace)
        if self.driver:
            values["LD_LIBRARY_PATH"] = self.driver
        done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"{variant}: bench_calls ended with {done.returncode}: "
                               f"{done.stderr}")
        for line in done.stdout.splitlines():
            case, driver_calls, *figures = line.split("\t")
            self.driver_calls[case] = int(driver_calls)
            rounds = self.seen.setdefault(case, {}).setdefault(variant, [])
            rounds.append([float(figure) for figure in figures])
        if variant not in ("bare", "nop"):
            self.lost += self.count_lost(trace)
            os.unlink(trace)

    def count_lost(self, trace):
        done = subprocess.run([self.tools.custody, "sql", trace,
                               "SELECT 'lost='||COALESCE(SUM(count),0) FROM gap"],
                              capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"lost=(\d+)", line.strip())
            if match:
                return int(match[1])
        raise RuntimeError(f"custody sql: {done.stderr}")

    def run(self):
        names = self.names
        for i in range(self.rounds):
            for variant in names[i % len(names):] + names[:i % len(names)]:
                self.run_one(variant)
        return self

    def added(self, case, variant):
        """What a variant adds to one driver call, round by round: in its own process, and
        against the bare process of that round."""
        share = self.driver_calls[case]
        rounds, bare = self.seen[case][variant], self.seen[case]["bare"]
        return {"added": [(one[0] - one[2]) / share for one in rounds],
                "added_to_mean": [(one[1] - one[3]) / share for one in rounds],
                "added_to_process": [(one[0] - base[0]) / share for one, base in zip(rounds, bare)]}

    def rows(self):
        for case, variants in self.seen.items():
            row = {"case": case, "threads": self.threads,
                   "driver": os.path.basename(self.driver or "GPU")}
            for variant in variants:
                row[variant + "_ns"] = statistics.median(one[0] for one in variants[variant])
                for name, values in self.added(case, variant).items():
                    row[f"{variant}_{name}_ns"] = statistics.median(values)
                    row[f"{variant}_{name}_range_ns"] = [min(values), max(values)]
            yield row


def with_range(row, name):
    low, high = row[name + "_range_ns"]
    return f"{row[name + '_ns']:.0f} ({low:.0f} to {high:.0f})"


def calls_table(rows):
    lines = ["Nanoseconds, medians. What is added to one driver call is measured inside the "
             "process (batches of calls go by turns through the wrapper and straight to the "
             "driver), and against the bare process of the same round; median of the rounds, "
             "their range in brackets. The twin is the preload that records nothing.", "",
             "| driver | threads | call | bare | recorded | record adds | to the mean "
             "| against a bare process | twin adds |",
             "| --- | ---: | --- | ---: | ---: | --- | ---: | --- | --- |"]
    for row in rows:
        cells = [row["driver"], str(row["threads"]), row["case"], f"{row['bare_ns']:.0f}",
                 f"{row['record_ns']:.0f}", with_range(row, "record_added"),
                 f"{row['record_added_to_mean_ns']:.0f}",
                 with_range(row, "record_added_to_process"),
                 with_range(row, "nop_added") if "nop_ns" in row else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def run_plans(tools, options, names, plans):
    """The rows of all plans, and how many records were lost."""
    rows, lost = [], 0
    for driver, threads, rounds, calls, pairs in plans:
        if driver is None and not options.gpu:
            continue
        if options.quick:
            rounds, calls, pairs = 1, min(calls, 500), min(pairs, 50)
        result = Calls(tools, options, names, driver, threads, rounds, calls, pairs).run()
        rows += result.rows()
        lost += result.lost
    return rows, lost


def bench_calls(tools, options):
    real = None if options.gpu else tools.simulated
    names = [name for name in VARIANTS if name != "nop" or tools.nop]
    plans = [(real, 1, options.rounds, 20000, 2000), (real, 16, 3, 1000, 100),
             (real, 64, 3, 300, 30)]
    plans += [(tools.null, threads, 3, calls, calls)
              for threads, calls in ((1, 20000), (16, 4000), (64, 1000))]
    rows, lost = run_plans(tools, options, names, plans)
    return {"calls": rows, "lost_records": lost}, calls_table(rows) + [
        "", f"Records lost in all recorded runs: {lost}."]


AGAINST = "bare", "before", "immediate", "deferred"


def bench_before(tools, options):
    """The same figures, side by side with those of another build: has a call become dearer?"""
    if not tools.before:
        raise RuntimeError("--against names no stage")
    plans = [(None, 1, options.rounds, 20000, 1000), (None, 16, options.rounds, 1000, 100)]
    plans += [(tools.null, 1, 3, 20000, 20000), (tools.null, 16, 3, 4000, 4000)]
    rows, lost = run_plans(tools, options, list(AGAINST), plans)
    lines = ["Nanoseconds that recording adds to one driver call, the build before and this one by "
             "turns, under both policies; medians of the rounds, their range in brackets.", "",
             "| driver | threads | call | bare | before | immediate | deferred |",
             "| --- | ---: | --- | ---: | --- | --- | --- |"]
    for row in rows:
        cells = [row["driver"], str(row["threads"]), row["case"], f"{row['bare_ns']:.0f}"]
        cells += [with_range(row, name + "_added") for name in AGAINST[1:]]
        lines.append("| " + " | ".join(cells) + " |")
    return {"calls": rows, "lost_records": lost}, lines + [
        "", f"Records lost in all recorded runs: {lost}."]


# ------------------------------------------------------------- training step


def run_step(tools, options, variant, *arguments):
    """One torch_step.py, alone on the machine; what it printed, in words."""
    trace = str(pathlib.Path(options.out) / "bench-step.db")
    command, values = tools.wrap(variant, ["python3", str(HERE / "torch_step.py"), *arguments],
                                 trace)
    if variant == "switch":
        values.update(LD_PRELOAD=f"{tools.switch} {tools.preload}", CUSTODY_OUTPUT=trace,
                      CUSTODY_PROGRAM=tools.custody)
    done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=120, check=False)
    if variant == "switch":  # a bare preload: its collector may still be writing
        subprocess.run([tools.custody, "sql", trace, "SELECT 1"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=60, check=False)
    if variant != "bare":
        pathlib.Path(trace).unlink(missing_ok=True)
    if done.returncode:
        raise RuntimeError(f"torch_step.py, {variant}, ended with {done.returncode}")
    return done.stdout.split()


def step_table(times):
    lines = ["| | median step | mean | 90th percentile |", "| --- | ---: | ---: | ---: |"]
    for name, title in ("bare", "bare"), ("record", "under custody record"):
        figures = [f"{statistics.median(column) / 1000:.0f} us" for column in zip(*times[name])]
        lines.append(f"| {title} | " + " | ".join(figures) + " |")
    return lines


def bench_step(tools, options):
    """Pairs of processes, one at a time: bare, record, record, bare, and so on."""
    times, hashes = {"bare": [], "record": []}, set()
    for number in range(options.pairs):
        for variant in ("record", "bare") if number % 2 else ("bare", "record"):
            *figures, digest = run_step(tools, options, variant, "run")
            times[variant].append([int(figure) for figure in figures])
            hashes.add(digest)
    ratios = [record[0] / bare[0] for bare, record in zip(times["bare"], times["record"])]
    ratio, low, high = median_interval(ratios)
    result = {"ratio": ratio, "interval": [low, high], "ratios": ratios, "step_ns": times,
              "same_losses": len(hashes) == 1}
    same = "bit-identical in all runs" if len(hashes) == 1 else "NOT THE SAME in all runs"
    lines = [f"PyTorch training step, {options.pairs} interleaved pairs of processes, one at a "
             "time, 500 steps each; medians of the processes:", "", *step_table(times), "",
             f"Median ratio of the pairs' median steps {ratio:.4f}, 95 % interval {low:.4f} to "
             f"{high:.4f}; losses of 500 steps {same}."]
    return result, lines


def bench_turns(tools, options):
    """The interposer out of the way and back, by turns in one process; three processes."""
    if not tools.switch:
        raise RuntimeError("no switch_preload.so in the stage")
    ratios, off, on, middles = [], [], [], []
    for _ in range(3):
        pairs = [[int(value) for value in pair.split(",")]
                 for pair in run_step(tools, options, "switch", "switch", str(options.switches))]
        ratios += [pair[1] / pair[0] for pair in pairs]
        off += [pair[0] for pair in pairs]
        on += [pair[1] for pair in pairs]
        middles.append(statistics.median(pair[1] / pair[0] for pair in pairs))
    ratio, low, high = median_interval(ratios)
    lines = ["The same step in one process, the interposer out of the way for 25 steps and back "
             f"for 25, {options.switches} pairs in each of three processes: without "
             f"{statistics.median(off) / 1000:.0f} us, with {statistics.median(on) / 1000:.0f} us; "
             f"median ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f} (by process "
             + ", ".join(f"{middle:.4f}" for middle in middles) + ")."]
    return {"ratio": ratio, "interval": [low, high], "ratios": ratios, "by_process": middles,
            "off_ns": off, "on_ns": on}, lines


# ------------------------------------------------------------------- example


def write_example(tools, options):
    """The report of a PyTorch run as a person would make it, for README.md."""
    out = pathlib.Path(options.out).resolve()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "train.py", folder)
        done = subprocess.run([tools.custody, "record", "-f", "-o", "train.db", "--", "python3",
                               "train.py"], cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=180, check=False)
        (out / "readme-summary.txt").write_text(done.stdout + done.stderr)
        report = subprocess.run([tools.custody, "report", "-n", "5", "train.db"], cwd=folder,
                                env=dict(os.environ, COLUMNS="80"), capture_output=True, text=True,
                                check=False)
        (out / "readme-report.txt").write_text(report.stdout + report.stderr)
    if done.returncode or report.returncode:
        raise RuntimeError(f"statuses {done.returncode} and {report.returncode}")
    return {}, ["readme-summary.txt and readme-report.txt hold a run of train.py."]


# ------------------------------------------------------------------- start-up


def time_start(environment):
    begin = time.perf_counter_ns()
    child = os.posix_spawn("/bin/true", ["/bin/true"], environment)
    os.waitpid(child, 0)
    return time.perf_counter_ns() - begin


def bench_start(tools, options):
    """/bin/true with and without the preload, by turns."""
    bare = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    loaded = dict(bare, LD_PRELOAD=tools.preload)
    pairs = [(time_start(bare), time_start(loaded)) for _ in range(40 if options.quick else 400)]
    added, low, high = median_interval([(b - a) / 1000 for a, b in pairs])
    base = statistics.median(a for a, _ in pairs) / 1000
    return ({"bare_us": base, "added_us": added, "interval_us": [low, high]},
            [f"A process without CUDA (/bin/true) starts and ends in {base:.0f} us; the preload "
             f"adds {added:.0f} us (95 % interval {low:.0f} to {high:.0f})."])


# ----------------------------------------------------------------------- main


def parse_options():
    parser = argparse.ArgumentParser(prog="gpu-bench", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--only", default="start,calls,turns,step",
                        help="parts, comma-separated [%(default)s]")
    parser.add_argument("--out", default="gpu-bench-out", help="results go here [%(default)s]")
    parser.add_argument("--against", default=".stageB",
                        help="stage of another build, for the part 'before' [%(default)s]")
    parser.add_argument("--rounds", type=int, default=5,
                        help="rounds of the calls on one thread [%(default)s]")
    parser.add_argument("--pairs", type=int, default=10,
                        help="pairs of training runs [%(default)s]")
    parser.add_argument("--step-rounds", type=int, default=3,
                        help="rounds of the programs' steps under each policy [%(default)s]")
    parser.add_argument("--switches", type=int, default=80,
                        help="pairs of stretches with the interposer off and on [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="few calls: only shows that it works")
    return parser.parse_args()


def describe_machine(options):
    if not options.gpu:
        return "No GPU here: the simulated driver and the empty one."
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        name = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        name = "an unnamed GPU"
    return f"Measured on {name}, {os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}."


def run_part(name, tools, options):
    parts = {"calls": bench_calls, "step": bench_step, "turns": bench_turns,
             "start": bench_start, "example": write_example, "before": bench_before,
             "free": frees.bench_free, "gap": frees.bench_gap, "torch": frees.bench_torch,
             "cupy": frees.bench_cupy, "cpp": frees.bench_cpp,
             "peers": peers.bench_peers, "switch": frees.bench_switch, "wait": frees.bench_wait,
             "resources": resources.bench_resources}
    begin = time.monotonic()
    try:
        result, lines = parts[name](tools, options)
    except (RuntimeError, ValueError, subprocess.SubprocessError, OSError) as error:
        result, lines = {"error": str(error)}, [f"{name} could not be measured: {error}"]
    result["seconds"] = time.monotonic() - begin
    print("\n".join([f"## {name}", ""] + lines + [""]), flush=True)
    return result, lines


def main():
    options = parse_options()
    options.gpu = has_gpu()
    tools = Tools(options.stage, options.against)
    if not tools.custody or not tools.calls or not tools.preload:
        print(f"gpu-bench: nothing built in {options.stage}", file=sys.stderr)
        return 1
    shutil.rmtree(pathlib.Path(options.out) / "bench-calls.db", ignore_errors=True)
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    names = [name for name in options.only.split(",") if name in ANYWHERE or options.gpu]
    text, results = [describe_machine(options), ""], {}
    print("\n".join(text))
    for name in names:
        results[name], lines = run_part(name, tools, options)
        text += lines + [""]
        # After each part: a run that is stopped leaves what it has.
        (pathlib.Path(options.out) / "gpu-bench.md").write_text("\n".join(text))
        (pathlib.Path(options.out) / "gpu-bench.json").write_text(json.dumps(results))
    return 1 if any("error" in result for result in results.values()) else 0


sys.exit(main())
