# SPDX-License-Identifier: Apache-2.0
"""What the benches share: where the built things are, how a program is run under
a variant, medians that can be told from noise."""
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = "immediate", "deferred", "nowait"


class Tools:
    """Where the built things are: a stage (scripts/gpu-stage) or a build directory."""

    def __init__(self, stage, against=None):
        self.stage = pathlib.Path(stage).resolve()
        self.custody = self.first("bin/custody", "custody")
        self.preload = self.first("lib/libcustody-preload.so", ".libs/libcustody-preload.so")
        self.nop = self.first("bench/libcustody-preload-nop.so", ".libs/libcustody-preload-nop.so")
        self.calls = self.program("bench_calls")
        self.resource = self.program("bench_resource")
        self.library = self.first("lib/libcustody.so.0", ".libs/libcustody.so.0")
        self.switch = self.first("bench/switch_preload.so")
        self.null = self.first("bench/null", "tests/bench/null/.libs")
        self.simulated = self.first("lib/custody/libcuda-sim", "tests/support/simdriver/lib")
        self.before = Tools(against).custody if against else None

    def first(self, *places):
        for place in places:
            if (self.stage / place).exists():
                return str(self.stage / place)
        return None

    def program(self, name):
        return self.first("bench/" + name, "tests/bench/.libs/" + name, "tests/bench/" + name)

    def wrap(self, variant, command, trace):
        """The command and environment of a variant: bare, nop (the empty twin), record (as
        it is by default), before (another build), or a policy of frees."""
        values = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        record = ["record", "-q", "-f", "-o", trace]
        if variant == "nop":
            values["LD_PRELOAD"] = self.nop
        if variant == "record":
            command = [self.custody, *record, "--", *command]
        if variant == "before":
            command = [self.before, *record, "--", *command]
        if variant in POLICIES:
            command = [self.custody, *record, f"--frees={variant}", "--", *command]
        return command, values


def median_interval(values):
    """Median and the order-statistic interval that holds it with at least 95 %."""
    values, total = sorted(values), len(values)
    tail, rank, chance = 0.0, 0, 0.5 ** total
    while rank < total // 2 and tail + chance <= 0.025:
        tail += chance
        rank += 1
        chance = chance * (total - rank + 1) / rank
    low = max(rank - 1, 0)
    return statistics.median(values), values[low], values[total - 1 - low]


def has_gpu():
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    return not subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                              check=False).returncode
