# SPDX-License-Identifier: Apache-2.0
"""The parts of the bench that are about frees: each program bare and under each
policy by turns, in rounds whose order rotates."""
import os
import pathlib
import statistics
import subprocess

from common import HERE, POLICIES, median_interval

VARIANTS = ("bare", *POLICIES)


def run_rounds(tools, options, command, rounds, environment=None, after=None):
    """{variant: [what each round printed, in lines of words]}."""
    printed = {variant: [] for variant in VARIANTS}
    trace = str(pathlib.Path(options.out) / "bench-frees.db")
    for number in range(rounds):
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            words, values = tools.wrap(variant, command, trace)
            values.update(environment or {})
            if not options.gpu:
                values.update(LD_LIBRARY_PATH=tools.simulated, SIMCUDA_COPY_US="1000")
            done = subprocess.run(words, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=150, check=False)
            if done.returncode:
                raise RuntimeError(f"{variant}: {command[:2]} ended with {done.returncode}: "
                                   f"{done.stderr[-400:]}")
            printed[variant].append([line.split("\t") for line in done.stdout.splitlines()])
            if variant != "bare":
                if after:
                    after(variant, trace)
                os.unlink(trace)
    return printed


def microseconds(nanoseconds):
    value = nanoseconds / 1000
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "| " + " | ".join(["---"] * len(titles)) + " |"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


# ------------------------------------------------------------------- the free


def gather_samples(printed):
    """{case: {figure: {variant: all rounds' numbers}}} in the order printed."""
    found = {}
    for variant, rounds in printed.items():
        for case, figure, numbers in (line for lines in rounds for line in lines):
            series = found.setdefault(case, {}).setdefault(figure, {}).setdefault(variant, [])
            series += [int(number) for number in numbers.split()]
    return found


def with_worst(series):
    return f"{microseconds(statistics.median(series))} ({microseconds(max(series))})"


def added(case, figure, variant):
    """Median beyond that of bare."""
    middle = {name: statistics.median(case[figure][name]) for name in ("bare", variant)}
    return microseconds(middle[variant] - middle["bare"])


def back(case, variant):
    parts = []
    for figure in "back-ctx", "back-stream":
        series = case[figure][variant]
        parts.append(f"{sum(series)}/{len(series)}")
    return " ".join(parts)


def bench_free(tools, options):
    few = ["-r", "3", "-m", "1"]
    command = [tools.program("bench_free"), *(few if options.quick else ["-r", "9"])]
    rounds = 1 if options.quick else 2
    found = gather_samples(run_rounds(tools, options, command, rounds))
    lines = ["A release behind ten copies of 256 MiB from host memory, or as many bytes on more "
             "streams, and with nothing to do: microseconds of the call, median (worst) of all; "
             "of sixteen in a row, each is one. \"event alone\" is a cuCtxRecordEvent in place of "
             "the free: the part of a free that is put off which is the driver's.", ""]
    lines += table(["freed", "calls", *VARIANTS],
                   [[name, str(len(case["free"]["bare"])),
                     *(with_worst(case["free"][variant]) for variant in VARIANTS)]
                    for name, case in found.items()])
    lines += ["", "What that leaves to the program's next synchronise, once the copies are over: "
              "microseconds, median, of cuCtxSynchronize and cuStreamSynchronize bare, and what is "
              "added to them; free and cuCtxSynchronize together, without waiting for the copies; "
              "and how often all memory was back after the two, asked of the driver and of NVML.",
              ""]
    titles = ["freed", "ctx: bare", *(f"+ {name}" for name in POLICIES), "stream: bare",
              *(f"+ {name}" for name in POLICIES), "both: bare",
              *(f"+ {name}" for name in POLICIES), *(f"back: {name}" for name in VARIANTS)]
    rows = []
    for name, case in found.items():
        cells = [name]
        for figure in "ctx", "stream", "total":
            cells.append(microseconds(statistics.median(case[figure]["bare"])))
            cells += [added(case, figure, policy) for policy in POLICIES]
        rows.append(cells + [back(case, variant) for variant in VARIANTS])
    lines += table(titles, rows)
    lines += ["", "The allocation before it, microseconds, median (worst):", ""]
    lines += table(["allocated", *VARIANTS],
                   [[name, *(with_worst(case["alloc"][variant]) for variant in VARIANTS)]
                    for name, case in found.items()
                    if name.endswith("idle") and "event" not in name])
    return {"samples": found}, lines


# --------------------------------------------------------------- the launcher


def bench_gap(tools, options):
    command = [tools.program("bench_gap"), *(["-s", "200", "-m", "1"] if options.quick else [])]
    printed = run_rounds(tools, options, command, 1 if options.quick else 2)
    result, rows = {}, []
    for variant, rounds in printed.items():
        columns = {}
        for name, *numbers in (line for lines in rounds for line in lines):
            columns.setdefault(name, []).append([int(number) for number in numbers])
        result[variant] = columns
        cells = [variant]
        for name in "launch", "gap", "free":
            middle = [statistics.median(column) for column in zip(*columns[name])]
            worst = max(row[3] for row in columns[name])
            cells += [microseconds(middle[0])]
            cells += [] if name == "free" else [microseconds(value) for value in middle[1:3]]
            cells += [microseconds(worst)]
        cells += [f"{sum(row[place] for row in columns['count']):,}" for place in (0, 1)]
        rows.append(cells)
    lines = ["One thread allocates 4 MiB, starts ten copies of 256 MiB and frees, over and over; "
             "another launches a kernel every 20 us. Microseconds of a launch, and of the time "
             "between two launches beyond those 20 us: medians of the rounds, the longest of "
             "all.", ""]
    lines += table(["", "launch: median", "99 %", "99.9 %", "longest", "gap: median", "99 %",
                    "99.9 %", "longest", "free: median", "longest", "launches", "frees"], rows)
    return result, lines


# -------------------------------------------------------------- steps of programs

PEAK = """SELECT 'live='||COALESCE(MAX(bytes), 0) FROM peak
          UNION ALL SELECT 'held='||COALESCE(MAX(held_peak_bytes), 0) FROM peak
          UNION ALL SELECT 'pending='||COALESCE(MAX(pending_peak_bytes), 0) FROM peak
          UNION ALL SELECT 'frees='||COUNT(free_requested_ns) FROM allocation
          UNION ALL SELECT 'deferred='||COUNT(free_waited_ns) FROM allocation
          UNION ALL SELECT 'passes='||COUNT(*) FROM flush"""


def read_trace(tools, trace):
    done = subprocess.run([tools.custody, "sql", trace, PEAK], capture_output=True, text=True,
                          check=False)
    pairs = (line.strip().split("=") for line in done.stdout.splitlines() if line.count("=") == 1)
    found = {name: int(value) for name, value in pairs if value.lstrip("-").isdigit()}
    if "passes" not in found:
        raise RuntimeError(f"custody sql: {done.stderr}")
    return found


def mebibytes(number):
    return f"{number / (1 << 20):,.0f}"


def bench_steps(tools, options, title, command, rounds, environment=None):
    """The program prints: median, mean, 90th percentile, bytes in use, hash of its results."""
    traces = {}
    printed = run_rounds(tools, options, command, rounds, environment,
                         lambda variant, trace: traces.update({variant: read_trace(tools, trace)}))
    result, rows, hashes = {"trace": traces}, [], set()
    for variant, rounds_of in printed.items():
        figures = [[int(word) for word in lines[-1][:4]] for lines in rounds_of]
        hashes |= {lines[-1][4] for lines in rounds_of}
        result[variant] = figures
        ratios = [one[0] / base[0] for one, base in zip(figures, result["bare"])]
        columns = list(zip(*figures))
        seen = traces.get(variant, {})
        rows.append([variant, *(microseconds(statistics.median(column)) for column in columns[:3]),
                     f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                     mebibytes(max(columns[3])),
                     *(mebibytes(seen[key]) if seen else "" for key in ("live", "held")),
                     *(f"{seen[key]:,}" if seen else ""
                       for key in ("frees", "deferred", "passes"))])
    same = "the same to the last bit in all runs" if len(hashes) == 1 else "NOT THE SAME"
    result["same_results"] = len(hashes) == 1
    lines = [f"{title}; {rounds} rounds by turns, medians of the processes; results {same}. Device "
             "memory in use at most as NVML saw it; live, and live or pending, at most as the "
             "trace says.", ""]
    lines += table(["", "median step, us", "mean", "90th percentile", "ratio to bare (range)",
                    "NVML, MiB", "live, MiB", "or pending, MiB", "frees", "put off", "passes"],
                   rows)
    return result, lines


def switched(tools, options, policy, command, environment):
    """One process in which the interposer goes and comes: pairs of medians, without and with."""
    trace = str(pathlib.Path(options.out) / "bench-switch.db")
    values = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    values.update(environment, LD_PRELOAD=f"{tools.switch} {tools.preload}", CUSTODY_OUTPUT=trace,
                  CUSTODY_PROGRAM=tools.custody, CUSTODY_FREES=policy)
    done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=150, check=False)
    subprocess.run([tools.custody, "sql", trace, "SELECT 1"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60, check=False)  # its collector writes
    pathlib.Path(trace).unlink(missing_ok=True)
    if done.returncode:
        raise RuntimeError(f"{policy}: {command[:2]} ended with {done.returncode}: "
                           f"{done.stderr[-400:]}")
    return [[int(value) for value in pair.split(",")] for pair in done.stdout.split()]


def switch_plans(tools):
    """Title, command, processes, environment."""
    plans = [("PyTorch without its cache",
              ["python3", str(HERE / "torch_step.py"), "switch", "30"], 1,
              {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
             ("CuPy without its pool", ["python3", str(HERE / "cupy_step.py"), "switch", "24"], 1,
              {})]
    program = tools.program("step_alloc")
    return plans + ([("C++", [program, "switch", "30"], 3, {})] if program else [])


def bench_switch(tools, options):
    """The programs' steps with the interposer out of the way and back, in one process."""
    if not tools.switch:
        raise RuntimeError("no switch_preload.so in the stage")
    result, rows = {}, []
    for title, command, processes, environment in switch_plans(tools):
        for policy in POLICIES:
            runs = [switched(tools, options, policy, command, environment)
                    for _ in range(processes)]
            pairs = [pair for run in runs for pair in run]
            ratio, low, high = median_interval([one[1] / one[0] for one in pairs])
            result[f"{title}, {policy}"] = runs
            rows.append([title, policy, str(len(pairs)),
                         *(microseconds(statistics.median(column)) for column in zip(*pairs)),
                         f"{ratio:.4f} ({low:.4f} to {high:.4f})",
                         ", ".join(f"{statistics.median(b / a for a, b in run):.3f}"
                                   for run in runs)])
    lines = ["The same steps in one process, the interposer out of the way for 25 steps and back "
             "for 25, by turns; medians, and the median of the pairs' ratios with its 95 % "
             "interval.", ""]
    return result, lines + table(["program", "frees", "pairs", "without, us", "with, us", "ratio",
                                  "by process"], rows)


def bench_wait(tools, options):
    """Ways of waiting for a kernel, without custody: what deferred may gain or lose by its own."""
    processes, found = 1 if options.quick else 5, {}
    for _ in range(processes):
        values = dict(os.environ)
        if not options.gpu:
            values.update(LD_LIBRARY_PATH=tools.simulated, SIMCUDA_KERNEL_US="50")
        done = subprocess.run([tools.program("bench_wait")], env=values, capture_output=True,
                              text=True, timeout=60, check=True)
        for line in done.stdout.splitlines():
            way, *numbers = line.split("\t")
            found.setdefault(way, []).append([int(number) for number in numbers])
    rows = [[way, *(", ".join(f"{microseconds(run[place])}" for run in runs)
                    for place in (0, 2, 4))] for way, runs in found.items()]
    lines = ["From the launch of a kernel to the end of the wait for it, bare, microseconds; the "
             f"medians of {processes} processes.", ""]
    return found, lines + table(["way", "kernel of 20 us", "50 us", "200 us"], rows)


def bench_torch(tools, options):
    return bench_steps(tools, options, "PyTorch without its cache "
                       "(PYTORCH_NO_CUDA_MEMORY_CACHING=1), 200 training steps",
                       ["python3", str(HERE / "torch_step.py"), "frees"], options.step_rounds,
                       {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "STEPS": "200"})


def bench_cupy(tools, options):
    return bench_steps(tools, options, "CuPy without its pool, 200 steps",
                       ["python3", str(HERE / "cupy_step.py")], options.step_rounds)


def bench_cpp(tools, options):
    program = tools.program("step_alloc")
    if not program:
        raise RuntimeError("no step_alloc in the stage")
    return bench_steps(tools, options, "A C++ program of the CUDA runtime that allocates in each "
                       "step, 500 steps", [program], 2 * options.step_rounds)
