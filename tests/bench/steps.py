# SPDX-License-Identifier: Apache-2.0
"""What the timed training loops share."""
import ctypes
import gc
import hashlib
import os
import statistics
import threading
import time


def calm_down():
    """Four CPUs for the main thread and its helpers, no collector of garbage."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
    gc.disable()


def digest(losses):
    """Of all losses, to their last bit."""
    return hashlib.sha256(" ".join(loss.hex() for loss in losses).encode("ascii")).hexdigest()


def summary(times):
    """Median, mean and 90th percentile, as words."""
    return [f"{statistics.median(times):.0f}", f"{statistics.mean(times):.0f}",
            f"{statistics.quantiles(times, n=10)[8]:.0f}"]


def switch_pairs(run, synchronize, count):
    """Pairs of medians of some steps, as words: with the interposer out of the way and with it,
    by turns.  switch_preload.c must be loaded above it.  run() returns nanoseconds.  Nothing is
    pending when it changes: the program has synchronised."""
    switch = ctypes.CDLL(None).switch_set
    found = []
    for pair in range(count):
        median = {}
        for is_on in (0, 1) if pair % 2 else (1, 0):
            synchronize()
            switch(is_on)
            median[is_on] = statistics.median(run())
            synchronize()
        found.append(f"{median[0]:.0f},{median[1]:.0f}")
        switch(1)
    return " ".join(found)


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class HighWater:
    """The most bytes of the first device that were in use while the body ran, by anybody, as
    NVML says it: past every interposer.  0 where NVML is not there."""

    def __init__(self):
        self.bytes, self.is_over = 0, threading.Event()
        self.library = self.device = self.thread = None
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        self.device = ctypes.c_void_p()
        if self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByIndex_v2(
                0, ctypes.byref(self.device)):
            self.library = None

    def watch(self):
        memory = Memory()
        while not self.is_over.is_set():
            if not self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)):
                self.bytes = max(self.bytes, memory.used)
            time.sleep(0.0003)

    def __enter__(self):
        if self.library:
            self.thread = threading.Thread(target=self.watch)
            self.thread.start()
        return self

    def __exit__(self, *unused):
        self.is_over.set()
        if self.thread:
            self.thread.join()
