# SPDX-License-Identifier: Apache-2.0
"""Ledgers of real programs: records each of the list and holds the bands of its
report against what the driver said was in use, at the peak and at the end.

Called by scripts/gpu-ledger, whose --help tells the options.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
LEAST = 64 << 20  # a ledger may be off by this, or by a hundredth of what is in use
KINDS = ("small", "large", "pitch", "pool", "vmm", "managed", "pinned", "array", "graph",
         "module", "heap", "streams", "context", "ipc")
LIVE = ("device", "pitch", "pool", "vmm", "array", "managed")
DRIVER = "contexts", "code", "other_driver"
OTHERS = "other_recorded", "other_processes", "contexts_and_others"
OWN = *LIVE, "pending", "rounding", "pools_cached", "graphs"


class Program:
    def __init__(self, name, group, command, **settings):
        self.name, self.group, self.command, self.settings = name, group, command, settings
        # Simulated devices are those of one process; no other one sees what it has there.
        self.simulated = group == "kinds" and command[-1] != "ipc"


def python(name, group, script, *arguments, **settings):
    return Program(name, group, ["python3", str(HERE / script), *arguments], **settings)


def program_list(tools):
    torch = "ledger_torch.py"
    return [
        python("PyTorch, native allocator", "torch", torch, "train"),
        python("PyTorch, expandable segments", "torch", torch, "train",
               PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
        python("PyTorch, cudaMallocAsync", "torch", torch, "train",
               PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"),
        python("PyTorch, cache off", "torch", torch, "train",
               PYTORCH_NO_CUDA_MEMORY_CACHING="1"),
        python("PyTorch, CUDA graph", "torch", torch, "graph"),
        python("PyTorch, NCCL all-reduce", "nccl", torch, "nccl"),
        python("JAX, preallocation", "jax", "ledger_jax.py", XLA_PYTHON_CLIENT_PREALLOCATE="true"),
        python("JAX, no preallocation", "jax", "ledger_jax.py",
               XLA_PYTHON_CLIENT_PREALLOCATE="false"),
        python("CuPy, pool", "cupy", "ledger_cupy.py", "pool"),
        python("CuPy, async pool", "cupy", "ledger_cupy.py", "async"),
        python("CuPy, managed memory", "cupy", "ledger_cupy.py", "managed"),
        *(Program(f"driver API, {kind}", "kinds", [tools.kinds, kind]) for kind in KINDS),
    ]


class Tools:
    """Where the built things are: a stage (scripts/gpu-stage) or a build directory."""

    def __init__(self, stage):
        self.stage = pathlib.Path(stage).resolve()
        self.custody = self.first("bin/custody", "custody")
        self.kinds = self.first("device/ledger_kinds", "tests/device/.libs/ledger_kinds",
                                "tests/device/ledger_kinds")
        self.simulated = self.first("lib/custody/libcuda-sim", "tests/support/simdriver/lib")

    def first(self, *places):
        return next((str(self.stage / place) for place in places
                     if (self.stage / place).exists()), None)


class Run:
    """One program, bare or under one policy of frees."""

    def __init__(self, program, policy, tools, options):
        self.program, self.policy = program, policy
        self.directory = options.work / f"{program.name} {policy or 'bare'}".replace(" ", "-")
        self.directory.mkdir(parents=True)
        self.trace = str(self.directory / "trace.db")
        self.seconds = -time.monotonic()
        self.status = self.start(tools, options)
        self.seconds += time.monotonic()

    def environment(self, tools, options):
        values = dict(os.environ, JOURNAL=str(self.directory / "journal"),
                      PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(HERE), **self.program.settings)
        values.pop("LD_PRELOAD", None)
        if options.simulate and not self.policy:
            values["LD_LIBRARY_PATH"] = tools.simulated
        return values

    def start(self, tools, options):
        command = self.program.command
        if self.policy:
            simulate = ["--simulate"] if options.simulate else []
            command = [tools.custody, "record", "-q", "-f", "-o", self.trace,
                       f"--frees={self.policy}", *simulate, "--", *command]
        with open(self.directory / "stdout", "wb") as out, \
             open(self.directory / "stderr", "wb") as err:
            try:
                return subprocess.run(command, env=self.environment(tools, options),
                                      cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=err, timeout=options.timeout, check=False).returncode
            except subprocess.TimeoutExpired:
                return "timeout"

    def output(self):
        return (self.directory / "stdout").read_bytes()

    def errors(self):
        return (self.directory / "stderr").read_text("utf-8", "replace").strip()[-300:]

    def journal(self):
        """What the program itself learnt of the driver, by moment."""
        path = self.directory / "journal"
        rows = map(json.loads, path.read_text("ascii").splitlines()) if path.exists() else []
        return {row["moment"]: row for row in rows if row["check"] == "ledger"}

    def ledgers(self, tools):
        """The rows of the report's ledger: of each process, device and moment."""
        done = subprocess.run([tools.custody, "report", "--format=json", self.trace],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"no report: {done.stderr.strip()}")
        return json.loads(done.stdout)["memory"].get("ledger") or []

def mebibytes(number):
    return "" if number is None else f"{number / (1 << 20):,.1f}"


def band(row, name):
    return row.get(f"{name}_bytes") or 0


def is_closed(row):
    return abs(band(row, "unaccounted")) <= max(LEAST, band(row, "used") // 100)


def overhead(run, moment):
    """What is in use beyond what the program's own allocator says it has."""
    row = run.journal().get(moment, {})
    return row["used"] - row["held"] if row.get("held") is not None else None


def overhead_of_bands(run, row):
    """The same by the bands: what the driver and others have, and blocks that are not the
    allocator's (those of libraries).  Rounding grows with the allocator's blocks."""
    held = run.journal().get("peak", {}).get("held")
    if held is None:
        return None
    names = set((*OWN, *DRIVER, *OTHERS)) - {"rounding"}
    return sum(band(row, name) for name in names) - held


def table_row(program, policy, row, bare):
    groups = [sum(band(row, kind) for kind in LIVE), band(row, "pending"),
              band(row, "rounding"), band(row, "pools_cached") + band(row, "graphs"),
              *(band(row, kind) for kind in DRIVER),
              sum(band(row, name) for name in OTHERS),
              band(row, "unaccounted")]
    share = abs(band(row, "unaccounted")) * 100 / max(1, band(row, "used"))
    cells = [program.name, policy, row["moment"], mebibytes(band(row, "used")),
             *map(mebibytes, groups), f"{share:.2f} %", mebibytes(overhead(bare, "before")),
             "yes" if is_closed(row) else "NO"]
    return "| " + " | ".join(cells) + " |"


def judge_row(run, row, bare, is_simulated):
    """What is wrong with one row, in sentences."""
    if not is_closed(row):
        yield f"{mebibytes(band(row, 'unaccounted'))} MiB are unaccounted for"
    if band(row, "contexts_and_others") and not is_simulated:
        yield "nothing told the context's bytes from those of other processes"
    before, bands = overhead(bare, "before"), overhead_of_bands(run, row)
    if row["moment"] == "highest" and None not in (before, bands) and abs(bands - before) > LEAST:
        yield (f"{mebibytes(bands)} MiB are the driver's, others' and libraries', measured before "
               f"were {mebibytes(before)} MiB")


def judge(program, run, bare, tools, options):
    """Rows of the table, and what is wrong in sentences."""
    wrong, lines = [], []
    label = f"{program.name}, {run.policy}"
    if run.status != bare.status or run.status:
        wrong.append(f"{label}: exit status {run.status}, bare {bare.status}: {run.errors()}")
    if run.output() != bare.output() or not bare.output():
        wrong.append(f"{label}: the output differs from the bare one")
    try:
        rows = run.ledgers(tools)
    except (ValueError, KeyError) as problem:
        return lines, wrong + [f"{label}: {problem}"]
    for moment in {"highest", "last"} - {row["moment"] for row in rows}:
        wrong.append(f"{label}: no ledger, {moment}")
    for row in rows:
        lines.append(table_row(program, run.policy, row, bare))
        wrong += [f"{label}: {row['moment']}: {text}"
                  for text in judge_row(run, row, bare, options.simulate)]
    peak = run.journal().get("peak", {}).get("used")
    seen = max((band(row, "used") for row in rows if row["moment"] == "highest"), default=0)
    if peak and seen < peak:
        wrong.append(f"{label}: the program saw {mebibytes(peak)} MiB in use, the ledger's highest "
                     f"reading is {mebibytes(seen)} MiB")
    return lines, wrong


HEAD = ("| program | frees | reading | in use | live | pending | rounding | cached, graphs "
        "| contexts | code | other driver | others | unaccounted | share | measured before "
        "| within 1 % or 64 MiB |\n"
        "| --- | --- | --- |" + " ---: |" * 12 + " --- |")


def machine_line(options):
    if options.simulate:
        return "Measured on the simulated driver."
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    text = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return f"Measured on {text}, {time.strftime('%Y-%m-%d')}; MiB."


def has_gpu():
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    return not subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                              check=False).returncode


def run_all(programs, tools, options):
    """One program at a time: another one's memory would be in the way."""
    lines, wrong = [machine_line(options), "", *HEAD.split("\n")], []
    for program in programs:
        bare = Run(program, None, tools, options)
        print(f"{bare.seconds:6.1f} s  status {bare.status}  {program.name}, bare", flush=True)
        if bare.status == SKIPPED:
            lines.append(f"| {program.name} | cannot run here |" + " |" * 14)
            continue
        for policy in options.policies:
            run = Run(program, policy, tools, options)
            print(f"{run.seconds:6.1f} s  status {run.status}  {program.name}, {policy}",
                  flush=True)
            rows, found = judge(program, run, bare, tools, options)
            lines += rows
            wrong += found
    return lines + [""] + [f"* {line}" for line in wrong], wrong


def parse_options():
    parser = argparse.ArgumentParser(prog="gpu-ledger", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--only", default="",
                        help="groups, comma-separated: torch nccl jax cupy kinds")
    parser.add_argument("--policy", default="deferred",
                        help="of frees, some with commas; '': bare only [%(default)s]")
    parser.add_argument("--out", default="gpu-ledger-out", help="results go here [%(default)s]")
    parser.add_argument("--timeout", type=int, default=120, help="seconds a run [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated driver; runs what can run there")
    options = parser.parse_args()
    options.policies = list(filter(None, options.policy.split(",")))
    options.work = pathlib.Path(options.out).resolve() / time.strftime("work-%H%M%S")
    options.work.mkdir(parents=True)
    return options


def main():
    options = parse_options()
    if not options.simulate and not has_gpu():
        print("gpu-ledger: no GPU that works here; skipped", file=sys.stderr)
        return SKIPPED
    tools = Tools(options.stage)
    if not tools.custody or not tools.kinds:
        print(f"gpu-ledger: nothing built in {options.stage}", file=sys.stderr)
        return 1
    groups = set(filter(None, options.only.split(",")))
    programs = [program for program in program_list(tools)
                if (not groups or program.group in groups)
                and (program.simulated or not options.simulate)]
    lines, wrong = run_all(programs, tools, options)
    text = "\n".join(lines) + "\n"
    print(text)
    (pathlib.Path(options.out) / "gpu-ledger.md").write_text(text)
    return 1 if wrong or not programs else 0


sys.exit(main())
