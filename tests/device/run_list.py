# SPDX-License-Identifier: Apache-2.0
"""Runs the device list: each program bare, counted, recorded, and recorded and
counted; compares the trace with the independent counts; prints the table.

Called by scripts/gpu-test, whose --help tells the options.
"""
import argparse
import concurrent.futures
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile

import figures

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VARIANTS = ["bare", "counted", "recorded", "both"]
RECORDED = "recorded", "both", "cupti"
SKIPPED = 77
COMPLAINTS_MAX = 16


class Program:
    """One program of the list.

    steady: it makes the same driver calls on every run, so that a count taken
    in one run can be compared with the trace of another.
    """

    def __init__(self, name, group, command, status=0, simulated=False, steady=True, wheels=False):
        self.name, self.group, self.command = name, group, command
        self.status, self.simulated, self.steady = status, simulated, steady
        self.wheels = wheels


def python(name, group, **more):
    return Program(name.replace("_", " "), group, ["python3", str(HERE / (name + ".py"))], **more)


def program_list():
    """Commands whose first word is built and no path yet; Tools.find tells where."""
    driver = "driver_kinds"
    return [
        python("torch_train", "torch"),
        python("torch_graph", "torch", steady=False),
        python("jax_train", "jax", steady=False),
        python("numba_kernels", "numba", wheels=True),
        python("cupy_pool", "cupy"),
        Program("driver API, linked", "driver", [driver], simulated=True),
        Program("driver API, exit status 7", "driver", [driver, "7"], status=7, simulated=True),
        Program("driver API, abort", "driver", [driver, "abort"], status=-signal.SIGABRT,
                simulated=True),
        Program("nvcc, static runtime", "static", ["runtime_static"]),
        Program("nvcc, shared runtime", "shared", ["runtime_shared", "5"], status=5),
        Program("nvcc, per-thread streams", "ptds", ["runtime_ptds"]),
    ]


class Tools:
    """Where the built things are: a stage (scripts/gpu-stage) or a build directory."""

    NVCC = {"runtime_static": ["-cudart", "static"],
            "runtime_shared": ["-cudart", "shared", "-Xlinker", "-rpath=/usr/local/cuda/lib64"],
            "runtime_ptds": ["-cudart", "static", "-default-stream", "per-thread"]}

    def __init__(self, stage, work):
        self.stage, self.work = pathlib.Path(stage).resolve(), work
        self.custody = self.first("bin/custody", "custody")
        self.counter = self.first("device/count_preload.so", "tests/device/.libs/count_preload.so")
        self.cupti = self.first("device/count_cupti.so")
        self.simulated = self.first("lib/custody/libcuda-sim", "tests/support/simdriver/lib")

    def first(self, *places):
        for place in places:
            if (self.stage / place).exists():
                return str(self.stage / place)
        return None

    def find(self, name):
        """The built program, None if there is none; nvcc builds the missing ones here."""
        if name == "python3":
            return name
        built = self.first("device/" + name, "tests/device/.libs/" + name, "tests/device/" + name)
        if built or name not in self.NVCC:
            return built
        nvcc = shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
        target = str(self.work / name)
        if not nvcc or subprocess.run([nvcc, "-O2", "-arch=native", *self.NVCC[name], "-o", target,
                                       str(HERE / "runtime_kinds.cu")], check=False).returncode:
            return None
        return target


class Run:
    """One program in one variant."""

    def __init__(self, program, variant, directory):
        self.program, self.variant, self.directory = program, variant, directory
        self.trace = str(directory / "trace.db")
        self.status = None
        self.seconds = 0.0

    def environment(self, tools, options):
        values = dict(os.environ, JOURNAL=str(self.directory / "journal"),
                      COUNT_DIR=str(self.directory), PYTHONDONTWRITEBYTECODE="1",
                      PYTHONPATH=str(HERE))
        values.pop("LD_PRELOAD", None)
        if self.variant in ("counted", "both"):
            values["LD_PRELOAD"] = tools.counter
        if self.variant == "cupti":
            values["CUDA_INJECTION64_PATH"] = tools.cupti
        if options.simulate and self.variant not in RECORDED:
            values["LD_LIBRARY_PATH"] = tools.simulated
        if self.program.wheels and options.site:
            values["PYTHONPATH"] = f"{options.site}:{HERE}"
        return values

    def command(self, tools, options):
        if self.variant not in RECORDED:
            return self.program.command
        simulate = ["--simulate"] if options.simulate else []
        return [tools.custody, "record", "-q", "-f", "-o", self.trace, *simulate, "--",
                *self.program.command]

    def start(self, tools, options):
        begin = time.monotonic()
        with open(self.directory / "stdout", "wb") as out, \
             open(self.directory / "stderr", "wb") as err:
            try:
                self.status = subprocess.run(
                    self.command(tools, options), env=self.environment(tools, options),
                    cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    timeout=options.timeout, check=False).returncode
            except subprocess.TimeoutExpired:
                self.status = "timeout"
        self.seconds = time.monotonic() - begin

    def output(self):
        return (self.directory / "stdout").read_bytes()

    def expected_status(self):
        """custody ends as a shell would: 128 and the signal's number."""
        status = self.program.status
        return 128 - status if status < 0 and self.variant in RECORDED else status


def make_runs(programs, work, variants):
    runs = []
    for program in programs:
        for variant in variants:
            directory = work / re.sub(r"[^a-z0-9]+", "-", program.name.lower()) / variant
            directory.mkdir(parents=True)
            runs.append(Run(program, variant, directory))
    return runs


def run_all(runs, tools, options):
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(run.start, tools, options) for run in runs]):
            done.result()


class Result:
    """What came of one program: its four runs and all figures compared."""

    def __init__(self, program, runs, tools):
        self.program = program
        self.run = {run.variant: run for run in runs if run.program is program}
        self.figures = []
        self.problems = []
        self.skipped = all(run.status == SKIPPED for run in self.run.values())
        if not self.skipped:
            self.judge(tools)

    def judge(self, tools):
        bare = self.run["bare"]
        self.same_output = all(run.output() == bare.output() for run in self.run.values())
        self.same_status = all(run.status == run.expected_status() for run in self.run.values())
        if not bare.output():
            self.problems.append("printed nothing when run bare")
        if not self.same_output:
            self.problems.append("the output differs: " + self.odd_ones())
        if not self.same_status:
            self.problems.append("exit statuses: " + ", ".join(
                f"{name} {run.status}" for name, run in self.run.items()))
        for name in RECORDED:
            if name in self.run:
                self.compare(tools, name)

    def odd_ones(self):
        bare = self.run["bare"].output()
        return ", ".join(name for name, run in self.run.items() if run.output() != bare)

    def compare(self, tools, name):
        run = self.run[name]
        if not os.path.exists(run.trace):
            self.problems.append(f"no trace of the {name} run")
            return
        trace = figures.Trace(tools.custody, run.trace)
        try:
            self.problems += [f"{name}: {text}" for text in trace.complaints()]
            if name == "recorded":
                self.figures += figures.compare_journal(trace, run.directory / "journal")
            if name == "both":
                self.figures += figures.compare_counts(trace, run.directory,
                                                       "counting preload, same run")
            elif name == "cupti":
                self.figures += figures.compare_counts(trace, run.directory, "CUPTI, same run")
            elif self.program.steady:
                self.figures += figures.compare_counts(trace, self.run["counted"].directory,
                                                       "counting preload, run alone")
        except figures.QueryFailed as failure:
            self.problems.append(f"{name}: {failure}")

    def sources(self):
        return list(dict.fromkeys(figure.source for figure in self.figures))

    def is_good(self):
        return not self.problems and self.figures and all(f.is_equal() for f in self.figures)


def grouped(number):
    return f"{number:,}"


def table_row(result, source):
    rows = [figure for figure in result.figures if figure.source == source]
    cells = [result.program.name, source,
             f"{sum(f.is_equal() for f in rows)} of {len(rows)}"]
    for unit in "calls", "bytes":
        ours = sum(f.ours for f in rows if f.unit == unit)
        theirs = sum(f.theirs for f in rows if f.unit == unit)
        cells += [grouped(ours), grouped(theirs)]
    cells += ["yes" if result.same_output else "NO",
              f"{result.run['recorded'].status}" + ("" if result.same_status else " (WRONG)")]
    return "| " + " | ".join(cells) + " |"


def table(results):
    lines = ["| program | independent count | figures equal | calls: custody | independent "
             "| bytes: custody | independent | output as bare | exit |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- |"]
    for result in results:
        if result.skipped:
            lines.append(f"| {result.program.name} | cannot run here | | | | | | | |")
            continue
        lines += [table_row(result, source) for source in result.sources()]
    return lines


def complaints(results):
    """Not all differences of a run that failed: gpu-test.tsv has them."""
    lines = []
    for result in results:
        wrong = [figure for figure in result.figures if not figure.is_equal()]
        lines += [f"{result.program.name}: {problem}" for problem in result.problems]
        lines += [f"{result.program.name}: {figure}" for figure in wrong[:COMPLAINTS_MAX]]
        if len(wrong) > COMPLAINTS_MAX:
            lines.append(f"{result.program.name}: {len(wrong) - COMPLAINTS_MAX} more differ")
        if not result.skipped and not result.figures:
            lines.append(f"{result.program.name}: nothing could be compared")
    return lines


def machine_line(options):
    if options.simulate:
        return "Measured on the simulated driver."
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        text = "an unnamed GPU"
    return f"Measured on {text}, {time.strftime('%Y-%m-%d')}."


def write_results(results, lines, options):
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu-test.md").write_text("\n".join(lines) + "\n")
    with open(out / "gpu-test.tsv", "w", encoding="ascii") as file:
        for result in results:
            for figure in result.figures:
                file.write(f"{result.program.name}\t{figure.row()}\n")
    with tarfile.open(out / "gpu-test-work.tar.xz", "w:xz", preset=1) as tar:
        for path in sorted(pathlib.Path(options.work).glob("*/*/*")):
            if path.is_file() and path.parent.name in RECORDED + tuple(VARIANTS) \
                    and path.stat().st_size < (4 << 20):
                tar.add(path, path.relative_to(options.work))


def write_report(results, tools, options):
    """The report of the PyTorch run is an example for people: keep its text."""
    for result in results:
        trace = "" if result.skipped else result.run["recorded"].trace
        if result.program.name == "torch train" and os.path.exists(trace):
            with open(pathlib.Path(options.out) / "torch-train-report.txt", "wb") as file:
                subprocess.run([tools.custody, "report", trace], stdout=file, check=False)
            if os.path.getsize(trace) < (15 << 20):
                shutil.copy(trace, pathlib.Path(options.out) / "torch-train.db")


def has_gpu():
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    return not subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                              check=False).returncode


def unpack_wheels(options):
    wheels = glob.glob(str(pathlib.Path(options.wheels) / "*.whl"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(pathlib.Path(options.work) / "site")
    return str(pathlib.Path(options.work) / "site") if wheels else None


def parse_options():
    parser = argparse.ArgumentParser(prog="gpu-test", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--only", default="", help="groups, comma-separated: driver static shared "
                        "ptds torch cupy jax numba")
    parser.add_argument("--out", default="gpu-test-out", help="results go here [%(default)s]")
    parser.add_argument("--wheels", default=".whl",
                        help="wheels for numba, where its NumPy must be an older one [%(default)s]")
    parser.add_argument("--jobs", type=int, default=max(2, min(8, (os.cpu_count() or 2) // 2)),
                        help="programs that run at the same time [%(default)s]")
    parser.add_argument("--timeout", type=int, default=150,
                        help="seconds for one run [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated driver; runs what can run there")
    return parser.parse_args()


def make_work(options):
    work = pathlib.Path(options.out).resolve() / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    options.work = str(work)
    options.site = unpack_wheels(options)
    return work


def print_times(runs):
    for run in runs:
        print(f"{run.seconds:6.1f} s  status {run.status}  {run.program.name}, {run.variant}")


def run_list(programs, tools, options):
    """Returns what is wrong, in sentences."""
    for program in programs:
        program.command[0] = tools.find(program.command[0])
    able = [program for program in programs if program.command[0]]
    wrong = [f"{program.name}: could not be built" for program in programs if program not in able]
    variants = VARIANTS + (["cupti"] if tools.cupti and not options.simulate else [])
    runs = make_runs(able, pathlib.Path(options.work), variants)
    run_all(runs, tools, options)
    print_times(runs)
    results = [Result(program, runs, tools) for program in able]
    wrong += complaints(results)
    lines = [machine_line(options), ""] + table(results) + [""] + [f"* {line}" for line in wrong]
    print("\n".join(lines))
    write_report(results, tools, options)
    write_results(results, lines, options)
    return wrong


def main():
    options = parse_options()
    if not options.simulate and not has_gpu():
        print("gpu-test: no GPU that works here; skipped", file=sys.stderr)
        return SKIPPED
    work = make_work(options)
    tools = Tools(options.stage, work)
    for what in "custody", "counter":
        if not getattr(tools, what):
            print(f"gpu-test: nothing built in {options.stage} (no {what})", file=sys.stderr)
            return 1
    groups = set(filter(None, options.only.split(",")))
    programs = [program for program in program_list()
                if (not groups or program.group in groups)
                and (program.simulated or not options.simulate)]
    wrong = run_list(programs, tools, options)
    shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong or not programs else 0


sys.exit(main())
