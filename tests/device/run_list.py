# SPDX-License-Identifier: Apache-2.0
"""Runs the device list: each program bare, counted, and under each policy of
frees recorded, and recorded and counted; compares the traces with the
independent counts; prints the tables.

Called by scripts/gpu-test, whose --help tells the options.
"""
import argparse
import concurrent.futures
import glob
import itertools
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
RECORDED = "recorded", "both", "cupti"
POLICIES = "immediate", "deferred", "nowait"
SKIPPED = 77
COMPLAINTS_MAX = 16


class Program:
    """One program of the list.

    steady: it makes the same driver calls on every run, so that a count taken
    in one run can be compared with the trace of another.
    is_counted: there is something to count; where not, only the output matters.
    is_alone: it takes the whole device, nothing else may run.
    same_peak: the most that is live at once is the same on every run.
    settings: environment that it has on the simulated driver.
    """

    def __init__(self, name, group, command, **more):
        self.name, self.group, self.command = name, group, command
        self.status = more.get("status", 0)
        self.simulated = more.get("simulated", False)
        self.steady = more.get("steady", True)
        self.wheels = more.get("wheels", False)
        self.is_counted = more.get("is_counted", True)
        self.is_alone = more.get("is_alone", False)
        self.same_peak = more.get("same_peak", self.is_counted)
        self.policies = more.get("policies", POLICIES)
        self.settings = more.get("settings", {})


def python(name, group, **more):
    return Program(name.replace("_", " "), group, ["python3", str(HERE / (name + ".py"))], **more)


def program_list():
    """Commands whose first word is built and no path yet; Tools.find tells where."""
    driver = "driver_kinds"
    return [
        python("torch_train", "torch"),
        python("torch_graph", "torch", steady=False),
        python("jax_train", "jax", steady=False, same_peak=False),
        python("numba_kernels", "numba", wheels=True),
        python("cupy_pool", "cupy"),
        Program("driver API, linked", "driver", [driver], simulated=True),
        Program("driver API, exit status 7", "driver", [driver, "7"], status=7, simulated=True),
        Program("driver API, abort", "driver", [driver, "abort"], status=-signal.SIGABRT,
                simulated=True),
        Program("nvcc, static runtime", "static", ["runtime_static"], same_peak=False),
        Program("nvcc, shared runtime", "shared", ["runtime_shared", "5"], status=5,
                same_peak=False),
        Program("nvcc, per-thread streams", "ptds", ["runtime_ptds"], same_peak=False),
        Program("answers about what was freed", "freed", ["freed_answers"], simulated=True,
                is_counted=False, settings={"SIMCUDA_STRICT": "0"}),
        Program("leaning on the wait of a free", "lean", ["lean_on_wait"], simulated=True,
                is_counted=False, policies=("immediate", "deferred"),
                settings={"SIMCUDA_COPY_US": "3000"}),
        Program("captures beside frees", "capture", ["capture_beside"], simulated=True,
                is_counted=False),
        Program("device kept at 95 %", "full", ["near_full"], simulated=True, is_counted=False,
                is_alone=True, same_peak=True,
                settings={"SIMCUDA_MEMORY": "256M", "SIMCUDA_CONTEXT": "4M",
                          "SIMCUDA_COPY_GBPS": "20", "SIMCUDA_MEMSET_GBPS": "40"}),
        Program("a device made to look smaller", "smaller", ["smaller"], simulated=True,
                is_counted=False, is_alone=True),
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
    """One program in one variant; a policy of frees where it is recorded."""

    def __init__(self, program, variant, policy, directory):
        self.program, self.variant, self.policy = program, variant, policy
        self.directory = directory
        self.name = f"{variant} {policy}" if policy else variant
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
        if options.simulate:
            values.update(self.program.settings)
        if options.simulate and self.variant not in RECORDED:
            values["LD_LIBRARY_PATH"] = tools.simulated
        if self.program.wheels and options.site:
            values["PYTHONPATH"] = f"{options.site}:{HERE}"
        return values

    def command(self, tools, options):
        if self.variant not in RECORDED:
            return self.program.command
        simulate = ["--simulate"] if options.simulate else []
        return [tools.custody, "record", "-q", "-f", "-o", self.trace, f"--frees={self.policy}",
                *simulate, "--", *self.program.command]

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


def variants_of(program, tools, options):
    """Pairs of a variant and a policy.  CUPTI also counts what custody itself calls, so it
    is asked where custody calls nothing."""
    yield "bare", None
    if program.is_counted and program.steady:
        yield "counted", None
    for policy in (name for name in options.policies if name in program.policies):
        yield "recorded", policy
        if program.is_counted:
            yield "both", policy
        if program.is_counted and policy == "immediate" and tools.cupti and not options.simulate:
            yield "cupti", policy


def make_runs(programs, tools, options):
    runs = []
    for program in programs:
        folder = re.sub(r"[^a-z0-9]+", "-", program.name.lower())
        for variant, policy in variants_of(program, tools, options):
            directory = pathlib.Path(options.work) / folder / "-".join(
                filter(None, [variant, policy]))
            directory.mkdir(parents=True)
            runs.append(Run(program, variant, policy, directory))
    return runs


def run_all(runs, tools, options):
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(run.start, tools, options)
                 for run in runs if not run.program.is_alone]):
            done.result()
    for run in runs:
        if run.program.is_alone:
            run.start(tools, options)


class Result:
    """What came of one program: its runs and all figures compared."""

    def __init__(self, program, runs, tools):
        self.program = program
        self.run = {run.name: run for run in runs if run.program is program}
        self.figures = {}  # policy -> list
        self.account = {}  # policy -> what the trace of the recorded run says of frees
        self.problems = []
        self.skipped = all(run.status == SKIPPED for run in self.run.values())
        if not self.skipped:
            self.judge(tools)

    def judge(self, tools):
        if not self.run["bare"].output():
            self.problems.append("printed nothing when run bare")
        for run in self.run.values():
            if not self.is_same(run):
                self.problems.append(f"the output differs: {run.name}; " + self.first_line(run))
            if run.status != run.expected_status():
                self.problems.append(f"exit status {run.status}: {run.name}")
        for run in self.run.values():
            if run.variant in RECORDED:
                self.compare(tools, run)
        peaks = {policy: account["peak"] for policy, account in self.account.items()}
        if self.program.same_peak and len(set(peaks.values())) > 1:
            self.problems.append(f"not the same peak: {peaks}")

    def is_same(self, run):
        return run.output() == self.run["bare"].output()

    def first_line(self, run):
        """The first line that is not the same, for people."""
        ours = run.output().decode("utf-8", "replace").splitlines()
        bare = self.run["bare"].output().decode("utf-8", "replace").splitlines()
        for one, two in itertools.zip_longest(ours, bare, fillvalue="nothing"):
            if one != two:
                return f"'{one[:120]}', bare '{two[:120]}'"
        return "only in its line ends"

    def of_policy(self, policy):
        return [run for run in self.run.values() if run.policy == policy]

    def compare(self, tools, run):
        found = self.figures.setdefault(run.policy, [])
        if not os.path.exists(run.trace):
            self.problems.append(f"no trace: {run.name}")
            return
        trace = figures.Trace(tools.custody, run.trace, run.policy)
        try:
            self.problems += [f"{run.name}: {text}" for text in trace.complaints()]
            if run.variant == "recorded":
                found += figures.compare_journal(trace, run.directory / "journal")
                self.account[run.policy] = trace.account()
                self.judge_pending(run)
            if run.variant == "both":
                found += figures.compare_counts(trace, run.directory, "counting preload, same run",
                                                is_beneath=True)
            elif run.variant == "cupti":
                found += figures.compare_counts(trace, run.directory, "CUPTI, same run")
            elif "counted" in self.run:
                found += figures.compare_counts(trace, self.run["counted"].directory,
                                                "counting preload, run alone")
        except figures.QueryFailed as failure:
            self.problems.append(f"{run.name}: {failure}")

    def judge_pending(self, run):
        account = self.account[run.policy]
        if account["pending_peak"] > account["pending_limit"]:
            self.problems.append(f"{run.name}: {account['pending_peak']} bytes were pending at "
                                 f"once, more than {account['pending_limit']}")

    def all_figures(self):
        return [figure for found in self.figures.values() for figure in found]


def grouped(number):
    return f"{number:,}"


def verdict(result, policy):
    """Output and exit status of all runs under a policy, as cells."""
    runs = [result.run["bare"]] + result.of_policy(policy)
    status = next(run.status for run in runs if run.variant == "recorded")
    is_good = all(run.status == run.expected_status() for run in runs)
    return ["yes" if all(result.is_same(run) for run in runs) else "NO",
            f"{status}" + ("" if is_good else " (WRONG)")]


def table_row(result, policy, source):
    rows = [figure for figure in result.figures[policy] if figure.source == source]
    cells = [result.program.name, source,
             f"{sum(f.is_equal() for f in rows)} of {len(rows)}"]
    for unit in "calls", "bytes":
        ours = sum(f.ours for f in rows if f.unit == unit)
        theirs = sum(f.theirs for f in rows if f.unit == unit)
        cells += [grouped(ours), grouped(theirs)]
    return "| " + " | ".join(cells + verdict(result, policy)) + " |"


def table(results, policy):
    """All independent counts under one policy."""
    lines = [f"Under `--frees={policy}`:", "",
             "| program | independent count | figures equal | calls: custody | independent "
             "| bytes: custody | independent | output as bare | exit |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- |"]
    for result in results:
        if result.skipped:
            lines.append(f"| {result.program.name} | cannot run here | | | | | | | |")
            continue
        sources = dict.fromkeys(figure.source for figure in result.figures.get(policy, []))
        lines += [table_row(result, policy, source) for source in sources]
    return lines


def mebibytes(number):
    return f"{number / (1 << 20):,.1f}"


def frees_row(result, policy):
    found = result.figures.get(policy, [])
    account = result.account.get(policy, {})
    equal = f"{sum(f.is_equal() for f in found)} of {len(found)}" if found else "none"
    cells = [result.program.name, policy, equal, *verdict(result, policy),
             grouped(account.get("frees", 0)), grouped(account.get("deferred", 0)),
             f"{account.get('in_frees_us', 0) / 1000:,.1f}", grouped(account.get("flushes", 0)),
             *(mebibytes(account.get(name, 0)) for name in ("peak", "held_peak", "pending_peak")),
             grouped(account.get("ran_out", 0)), grouped(account.get("cured", 0)),
             grouped(account.get("findings", 0))]
    return "| " + " | ".join(cells) + " |"


def frees_table(results):
    """Every program under every policy, a line each."""
    lines = ["The list under each policy; times and counts of frees from the trace. Figures are "
             "all those compared with an independent count; the peak is of what was live; memory "
             "ran out where the driver "
             "refused an allocation that was then tried again, and that was cured where the "
             "second attempt succeeded.", "",
             "| program | frees | figures equal | output as bare | exit | frees | put off "
             "| in frees, ms | passes | peak MiB | with pending | pending at most | ran out "
             "| cured | findings |",
             "| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: "
             "| ---: | ---: | ---: |"]
    for result in results:
        lines += [frees_row(result, policy) for policy in POLICIES
                  if result.of_policy(policy) and not result.skipped]
    return lines


def complaints(results):
    """Not all differences of a run that failed: gpu-test.tsv has them."""
    lines = []
    for result in results:
        name = result.program.name
        wrong = [f"{name}, {policy}: {figure}" for policy, found in result.figures.items()
                 for figure in found if not figure.is_equal()]
        lines += [f"{name}: {problem}" for problem in result.problems]
        lines += wrong[:COMPLAINTS_MAX]
        if len(wrong) > COMPLAINTS_MAX:
            lines.append(f"{name}: {len(wrong) - COMPLAINTS_MAX} more differ")
        if not result.skipped and result.program.is_counted and not result.all_figures():
            lines.append(f"{name}: nothing could be compared")
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
            for policy, found in result.figures.items():
                for figure in found:
                    file.write(f"{result.program.name}\t{policy}\t{figure.row()}\n")
    with tarfile.open(out / "gpu-test-work.tar.xz", "w:xz", preset=1) as tar:
        for path in sorted(pathlib.Path(options.work).glob("*/*/*")):
            if path.is_file() and path.stat().st_size < (2 << 20):
                tar.add(path, path.relative_to(options.work))


def write_report(results, tools, options):
    """The report of the PyTorch run is an example for people: keep its text."""
    for result in results:
        first = next((run for run in result.run.values() if run.variant == "recorded"), None)
        trace = "" if result.skipped or not first else first.trace
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
                        "ptds torch cupy jax numba freed lean capture full")
    parser.add_argument("--policy", default="all",
                        help="of frees: immediate, deferred, nowait, some of them with commas, or "
                        "all [%(default)s]")
    parser.add_argument("--out", default="gpu-test-out", help="results go here [%(default)s]")
    parser.add_argument("--wheels", default=".whl",
                        help="wheels for numba, where its NumPy must be an older one [%(default)s]")
    parser.add_argument("--jobs", type=int, default=max(2, min(8, (os.cpu_count() or 2) // 2)),
                        help="programs that run at the same time [%(default)s]")
    parser.add_argument("--timeout", type=int, default=150,
                        help="seconds for one run [%(default)s]")
    parser.add_argument("--stand-in", default="0x100",
                        help="an address that nobody has [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated driver; runs what can run there")
    options = parser.parse_args()
    options.policies = POLICIES if options.policy == "all" else options.policy.split(",")
    for name in options.policies:
        if name not in POLICIES:
            parser.error(f"no policy is named {name}")
    return options


def make_work(options):
    work = pathlib.Path(options.out).resolve() / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    options.work = str(work)
    options.site = unpack_wheels(options)
    return work


def print_times(runs):
    for run in runs:
        print(f"{run.seconds:6.1f} s  status {run.status}  {run.program.name}, {run.name}")


# -------------------------------------------- what is answered about freed blocks


def read_answers(text):
    """Two words before the answer: what was freed, and what was asked."""
    rows = (line.split(": ", 2) for line in text.splitlines())
    return {tuple(row[:2]): row[2] for row in rows if len(row) == 3}


def ask_bare(tools, options, *arguments):
    """The driver's answers: about an address that nobody has, or to all questions."""
    command = [tools.find("freed_answers"), *arguments]
    values = dict(os.environ)
    if options.simulate:
        values.update(LD_LIBRARY_PATH=tools.simulated, SIMCUDA_STRICT="0")
    done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=options.timeout, check=False)
    return read_answers(done.stdout)


def compare_answers(results, tools, options):
    """Where an address that nobody has, or a policy, answers unlike a freed block."""
    result = next((one for one in results if one.program.group == "freed"), None)
    if result is None or result.skipped:
        return []
    columns = {run.policy or "bare": read_answers(run.output().decode("utf-8", "replace"))
               for run in result.run.values()}
    columns["nobody's address"] = ask_bare(tools, options, options.stand_in)
    bare = columns.pop("bare")
    odd = [key for key in bare
           if any(column.get(key, bare[key]) != bare[key] for column in columns.values())]
    write_answers({**ask_bare(tools, options, "-a"), **bare}, columns, options)
    if not odd:
        return [f"{len(bare)} questions about what was freed were all answered as bare, under "
                f"every policy, and so were those about {options.stand_in}, an address nobody has."]
    lines = [f"{len(bare)} questions about what was freed; those answered otherwise than bare, "
             f"and what is said of {options.stand_in}, an address nobody has:", "",
             "| freed | asked | bare | " + " | ".join(columns) + " |",
             "| --- | --- | --- |" + " --- |" * len(columns)]
    for key in odd:
        cells = [*key, bare[key], *(column.get(key, "") for column in columns.values())]
        lines.append("| " + " | ".join(cell.strip() for cell in cells) + " |")
    return lines


def write_answers(bare, columns, options):
    with open(pathlib.Path(options.out) / "answers.tsv", "w", encoding="utf-8") as file:
        file.write("\t".join(["freed", "asked", "bare", *columns]) + "\n")
        for key, answer in bare.items():
            file.write("\t".join([*key, answer, *(column.get(key, "")
                                                 for column in columns.values())]) + "\n")


def run_list(programs, tools, options):
    """Returns what is wrong, in sentences."""
    for program in programs:
        program.command[0] = tools.find(program.command[0])
    able = [program for program in programs if program.command[0]]
    wrong = [f"{program.name}: could not be built" for program in programs if program not in able]
    runs = make_runs(able, tools, options)
    run_all(runs, tools, options)
    print_times(runs)
    results = [Result(program, runs, tools) for program in able]
    wrong += complaints(results)
    lines = [machine_line(options), "", *table(results, options.policies[0]), ""]
    lines += [*frees_table(results), "", *compare_answers(results, tools, options), ""]
    lines += [f"* {line}" for line in wrong]
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
