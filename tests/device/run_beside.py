# SPDX-License-Identifier: Apache-2.0
"""custody beside other tools of the field: compute-sanitizer and Nsight Systems,
each inside and outside of `custody record`, and PyTorch's profiler within.

Called by scripts/gpu-beside, whose --help tells the options.
"""
import argparse
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-systems/*/bin",
          "/opt/nvidia/nsight-compute/*/host/target-linux-x64")
# What the tools themselves print where the program prints.
NOISE = re.compile(rb"^(=========.*|Genera.*|Collecting.*|Capturing.*|\s*\[.*|\s+/.*|WARNING.*|"
                   rb"The target application.*|Processing.*|Importing.*|Failed to.*|Errors.*|)$")


def find_program(name):
    for place in PLACES:
        for folder in sorted(glob.glob(place), reverse=True):
            found = shutil.which(name, path=folder)
            if found:
                return found
    return shutil.which(name)


class Case:
    """A way to run a program: the words before it, by turns of a tool and of custody."""

    def __init__(self, name, tool, order, record=()):
        self.name, self.tool, self.order, self.record = name, tool, order, record


CASES = [
    Case("custody alone", None, "custody"),
    Case("custody with GPU times", None, "custody", ("--gpu-times",)),
    Case("compute-sanitizer alone", "sanitizer", "tool"),
    Case("compute-sanitizer within custody", "sanitizer", "custody tool"),
    Case("custody within compute-sanitizer", "sanitizer", "tool custody"),
    Case("Nsight Systems alone", "nsys", "tool"),
    Case("Nsight Systems within custody", "nsys", "custody tool"),
    Case("custody within Nsight Systems", "nsys", "tool custody"),
    Case("Nsight Systems within custody with GPU times", "nsys", "custody tool",
         ("--gpu-times",)),
]


class Tools:
    def __init__(self, stage):
        stage = pathlib.Path(stage).resolve()
        self.custody = str(stage / "bin/custody")
        self.program = stage / "device"
        self.sanitizer, self.nsys = find_program("compute-sanitizer"), find_program("nsys")

    def words(self, case, word, directory):
        if word == "custody":
            return [self.custody, "record", "-f", "-o", str(directory / "trace.db"), *case.record,
                    "--"]
        if case.tool == "sanitizer":
            return [self.sanitizer, "--tool", "memcheck", "--target-processes", "all",
                    "--error-exitcode", "99"]
        return [self.nsys, "profile", "--trace=cuda", "--sample=none", "-o",
                str(directory / "nsys"), "--force-overwrite", "true"]

    def is_there(self, case):
        return not case.tool or getattr(self, case.tool)


def program_list(tools):
    return {
        "driver API, every kind": [str(tools.program / "driver_kinds")],
        "nvcc, static runtime": [str(tools.program / "runtime_static")],
        "PyTorch profiler": ["python3", str(HERE / "torch_profiler.py")],
    }


class Run:
    def __init__(self, case, command, directory, tools, options):
        directory.mkdir(parents=True)
        self.directory, self.case = directory, case
        words = [word for step in case.order.split() for word in tools.words(case, step, directory)]
        values = dict(os.environ, PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1",
                      TMPDIR=str(directory))
        values.pop("LD_PRELOAD", None)
        self.seconds = -time.monotonic()
        try:
            done = subprocess.run([*words, *command], env=values, cwd=directory, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=options.timeout)
            self.status, self.all_output, self.errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            self.status, self.all_output = "timeout", late.stdout or b""
            self.errors = late.stderr or b""
        self.seconds += time.monotonic()
        (directory / "stdout").write_bytes(self.all_output)
        (directory / "stderr").write_bytes(self.errors)
        self.output = [line for line in self.all_output.splitlines() if not NOISE.match(line)]

    def said(self):
        """The sentences of custody on standard error, of which there should be few."""
        return [line.decode("utf-8", "replace") for line in self.errors.splitlines()
                if line.startswith(b"custody:")]

    def trace(self, tools):
        """Allocations, copies and those with times of the GPU; None: no complete trace."""
        if "custody" not in self.case.order:
            return {}
        query = ("SELECT 'row='||(SELECT value FROM meta WHERE key='complete')||'|'||"
                 "(SELECT count(*) FROM allocation)||'|'||(SELECT count(*) FROM transfer)||'|'||"
                 "(SELECT count(*) FROM transfer WHERE gpu_duration_ns IS NOT NULL)")
        done = subprocess.run([tools.custody, "sql", str(self.directory / "trace.db"), query],
                              capture_output=True, text=True, check=False)
        match = re.search(r"row=(\d+)\|(\d+)\|(\d+)\|(\d+)", done.stdout)
        if not match or match[1] != "1":
            return None
        return dict(zip(("allocations", "copies", "timed"), map(int, match.groups()[1:])))

    def findings(self):
        """compute-sanitizer's sum: failed driver calls are errors to it, the program's own too."""
        return re.findall(rb"ERROR SUMMARY: .*", self.all_output + self.errors)

    def tool_works(self):
        if self.case.tool == "sanitizer":
            return bool(self.findings())
        if self.case.tool == "nsys":
            return any(path.stat().st_size > 10000 for path in self.directory.rglob("*")
                       if path.suffix in (".qdstrm", ".nsys-rep"))
        return True


def judge(run, without, alone, trace):
    """What is not as it is without custody: bare, or under the tool alone."""
    wrong = []
    if run.status != without.status:
        wrong.append(f"exit status {run.status}, without custody {without.status}")
    if run.output != without.output:
        wrong.append("the output differs from that without custody")
    if run.findings() != without.findings():
        wrong.append(f"the tool found {run.findings()}, without custody {without.findings()}")
    if not run.tool_works():
        wrong.append("the tool did not do its work")
    if trace is None:
        wrong.append("no complete trace")
    elif trace and alone and trace["allocations"] != alone["allocations"]:
        wrong.append(f"{trace['allocations']} allocations, {alone['allocations']} without the tool")
    return wrong


def run_program(name, command, tools, options):
    """The rows of one program and what is wrong."""
    lines, problems, alone = [], [], None
    folder = options.work / re.sub(r"[^a-z0-9]+", "-", name.lower())
    without = {None: Run(Case("bare", None, ""), command, folder / "bare", tools, options)}
    for case in CASES:
        # Two users of CUPTI in one program: nothing to compare, and Nsight Systems takes long.
        if case.tool == "nsys" and command[0] == "python3":
            continue
        if not tools.is_there(case):
            lines.append(f"| {name} | {case.name} | not on this machine | | | | |")
            continue
        run = Run(case, command, folder / re.sub(r"[^a-z]+", "-", case.name.lower()), tools,
                  options)
        trace = run.trace(tools)
        alone = trace if case.name == "custody alone" else alone
        without.setdefault(case.tool, run)
        wrong = judge(run, without[case.tool], alone, trace)
        print(f"{run.seconds:6.1f} s  status {run.status}  {name}, {case.name}  {wrong}",
              flush=True)
        problems += [f"{name}, {case.name}: {text}" for text in wrong]
        counts = trace or {}
        lines.append(f"| {name} | {case.name} | {'; '.join(wrong) or 'as without custody'} "
                     f"| {counts.get('allocations', '')} | {counts.get('copies', '')} "
                     f"| {counts.get('timed', '')} | {'; '.join(run.said()[:2])} |")
    return lines, problems


def main():
    parser = argparse.ArgumentParser(prog="gpu-beside", description=__doc__)
    parser.add_argument("--stage", default=".stage", help="made by scripts/gpu-stage [%(default)s]")
    parser.add_argument("--out", default="gpu-beside-out", help="results go here [%(default)s]")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--timeout", type=int, default=100, help="seconds a run [%(default)s]")
    options = parser.parse_args()
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                      check=False).returncode:
        print("gpu-beside: no GPU that works here; skipped", file=sys.stderr)
        return SKIPPED
    options.work = pathlib.Path(options.out).resolve() / time.strftime("work-%H%M%S")
    tools = Tools(options.stage)
    lines = ["| program | run | result | allocations | copies | with GPU times | custody said |",
             "| --- | --- | --- | ---: | ---: | ---: | --- |"]
    problems = []
    programs = program_list(tools).items()
    for name, command in ((name, command) for name, command in programs if options.only in name):
        rows, wrong = run_program(name, command, tools, options)
        lines += rows
        problems += wrong
    text = "\n".join(lines + [""] + [f"* {line}" for line in problems]) + "\n"
    print(text)
    (pathlib.Path(options.out) / "gpu-beside.md").write_text(text)
    return 1 if problems else 0


sys.exit(main())
