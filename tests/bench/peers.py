# SPDX-License-Identifier: Apache-2.0
"""What custody adds to a driver call, beside other tools, all by turns in one run:
NVIDIA's CUPTI sample injection, Nsight Systems, compute-sanitizer's leak check."""
import glob
import os
import pathlib
import shutil
import statistics
import subprocess

TITLES = {"record": "custody", "cupti": "CUPTI sample", "nsys": "Nsight Systems",
          "sanitizer": "compute-sanitizer"}
CALLS, PAIRS, ROUNDS = 20000, 2000, 3
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-systems/*/bin",
          "/opt/nvidia/nsight-compute/*/host/target-linux-x64")


def find_program(name):
    for place in (os.environ["PATH"], *PLACES):
        for folder in sorted(glob.glob(place), reverse=True) or place.split(":"):
            found = shutil.which(name, path=folder)
            if found:
                return found
    return None


def build_injection(work):
    """The sample of the toolkit, built in a copy of it; None where it cannot be."""
    samples = pathlib.Path("/usr/local/cuda/extras/CUPTI/samples")
    if not (samples / "cupti_trace_injection").is_dir():
        return None
    copy = work / "samples"
    shutil.copytree(samples, copy, dirs_exist_ok=True)
    done = subprocess.run(["make", "CUDA_INSTALL_PATH=/usr/local/cuda"], check=False,
                          cwd=copy / "cupti_trace_injection", capture_output=True, text=True)
    (work / "injection.log").write_text(done.stdout + done.stderr)
    return next(map(str, (copy / "cupti_trace_injection").glob("libcupti_trace_injection.so")),
                None)


class Peers:
    def __init__(self, tools, work):
        self.tools, self.work = tools, work
        self.injection = build_injection(work)
        self.nsys, self.sanitizer = find_program("nsys"), find_program("compute-sanitizer")
        self.seen = {}  # case -> variant -> medians

    def variants(self):
        there = {"bare": True, "record": True, "cupti": self.injection, "nsys": self.nsys,
                 "sanitizer": self.sanitizer}
        return [name for name, value in there.items() if value]

    def wrap(self, variant, command):
        command, values = self.tools.wrap(variant, command, str(self.work / "peers.db"))
        if variant == "cupti":
            values["CUDA_INJECTION64_PATH"] = self.injection
        if variant == "nsys":
            command = [self.nsys, "profile", "--trace=cuda", "--cuda-memory-usage=true", "-o",
                       str(self.work / "peers"), "--force-overwrite", "true", *command]
        if variant == "sanitizer":
            command = [self.sanitizer, "--leak-check", "full", *command]
        return command, values

    def run_one(self, variant):
        command, values = self.wrap(variant, [self.tools.calls, "-t", "1", "-n", str(CALLS), "-p",
                                              str(PAIRS)])
        done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=240, check=False)
        rows = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 5]
        if not rows:
            raise RuntimeError(f"{variant}: {(done.stderr or done.stdout)[-400:]}")
        for case, calls, median, *_ in rows:
            self.seen.setdefault(case, {}).setdefault(variant, []).append(
                float(median) / int(calls))

    def run(self, rounds):
        names = self.variants()
        for i in range(rounds):
            for variant in names[i % len(names):] + names[:i % len(names)]:
                self.run_one(variant)

    def rows(self):
        for case, variants in self.seen.items():
            bare = variants["bare"]
            row = {"case": case, "bare": statistics.median(bare)}
            for name in variants:
                if name != "bare":
                    row[name] = statistics.median(
                        one - base for one, base in zip(variants[name], bare))
            yield row


def bench_peers(tools, options):
    work = pathlib.Path(options.out).resolve() / "peers"
    work.mkdir(parents=True, exist_ok=True)
    peers = Peers(tools, work)
    peers.run(1 if options.quick else ROUNDS)
    rows = list(peers.rows())
    names = [name for name in peers.variants() if name != "bare"]
    lines = ["Nanoseconds that each tool adds to one driver call, against the bare process of the "
             f"same round; medians of {ROUNDS} rounds by turns, one thread, {CALLS} calls.", "",
             "| call | bare | " + " | ".join(TITLES[name] for name in names) + " |",
             "| --- | ---: |" + " ---: |" * len(names)]
    for row in rows:
        lines.append(f"| {row['case']} | {row['bare']:.0f} | " +
                     " | ".join(f"{row[name]:.0f}" for name in names) + " |")
    missing = [TITLES[name] for name in TITLES if name not in names]
    shutil.rmtree(work, ignore_errors=True)
    return {"peers": rows}, lines + ([f"Not on this machine: {', '.join(missing)}."]
                                     if missing else [])
