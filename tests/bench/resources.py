# SPDX-License-Identifier: Apache-2.0
"""The part `resources` of the benches: an allocation and its free, of every resource of
libcustody, of the driver's own functions, and of PyTorch's and CuPy's allocators."""
import os
import statistics
import subprocess
import sys

from common import HERE

PACKAGES = "torch", "cupy"
BARE = {"custody device": "cuMemAlloc", "custody pool": "cuMemAllocAsync",
        "custody pinned": "cuMemHostAlloc", "custody managed": "cuMemAllocManaged"}


def limits(options):
    """Pairs, rounds, milliseconds, most bytes."""
    if options.quick:
        return "20", "1", "5", str(1 << 20)
    return "200", str(options.rounds), "60", str(1 << 30)


def environment(tools, options):
    """The library lies where it was built or staged; so does the simulated driver."""
    places = [os.path.dirname(tools.library)]
    if not options.gpu:
        places.append(tools.simulated)
    values = dict(os.environ)
    if values.get("LD_LIBRARY_PATH"):
        places.append(values["LD_LIBRARY_PATH"])
    values["LD_LIBRARY_PATH"] = ":".join(places)
    if not options.gpu:
        values.setdefault("SIMCUDA_MEMSET_US", "500")
    return values


def read_lines(text):
    for line in text.splitlines():
        name, size, load, *figures = line.split("\t")
        pairs, median, worst, first, second = (int(figure) for figure in figures)
        yield {"allocator": name, "bytes": int(size), "load": load, "pairs": pairs,
               "median_ns": median, "worst_ns": worst, "allocation_ns": first, "free_ns": second}


def run_one(command, values):
    """The rows of one process; None: what it wants to measure is not here."""
    done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=500, check=False)
    if done.returncode == 77:
        return None
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return list(read_lines(done.stdout))


def in_words(size):
    for unit, shift in ("GiB", 30), ("MiB", 20), ("KiB", 10):
        if size >> shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def microseconds(value):
    return f"{value / 1000:.1f}" if value < 10000000 else f"{value / 1000:,.0f}"


def table(rows, load):
    sizes = sorted({row["bytes"] for row in rows})
    found = {(row["allocator"], row["bytes"]): row for row in rows if row["load"] == load}
    names = list(dict.fromkeys(row["allocator"] for row in rows))
    yield "| | " + " | ".join(in_words(size) for size in sizes) + " |"
    yield "| --- |" + " ---: |" * len(sizes)
    for name in names:
        cells = [f"{microseconds(row['median_ns'])} ({microseconds(row['worst_ns'])})"
                 if (row := found.get((name, size))) else "" for size in sizes]
        yield f"| {name} | " + " | ".join(cells) + " |"


def ratios(rows):
    """By how much a resource is faster than the driver's own function, at the median size."""
    found = {(row["allocator"], row["bytes"], row["load"]): row["median_ns"] for row in rows}
    sizes = sorted({row["bytes"] for row in rows})
    for name, bare in BARE.items():
        parts = []
        for load in "idle", "busy":
            both = [(found[bare, size, load], found[name, size, load]) for size in sizes
                    if (name, size, load) in found and (bare, size, load) in found]
            if both:
                middle = statistics.median(before / max(after, 1) for before, after in both)
                parts.append(f"{middle:.2f} times {load}")
        if parts:
            yield f"{bare} takes {' and '.join(parts)} what {name} takes (median of the sizes)."


def bench_resources(tools, options):
    if not tools.resource or not tools.library:
        raise RuntimeError("bench_resource or libcustody.so is not there")
    values, numbers = environment(tools, options), limits(options)
    flags = [word for pair in zip(("-n", "-r", "-t", "-m"), numbers) for word in pair]
    rows, missing = run_one([tools.resource, *flags], values), []
    if rows is None:
        raise RuntimeError("bench_resource found no device")
    for package in PACKAGES if options.gpu else ():
        more = run_one([sys.executable, str(HERE / "bench_resource.py"), package, *numbers],
                       dict(os.environ))
        if more is None:
            missing.append(package)
        else:
            rows += [row for row in more if row["allocator"] != "Python alone" or
                     package == PACKAGES[0]]
    lines = ["An allocation and its free together, in microseconds: the median, and the worst in "
             "brackets. Those of the driver and of libcustody in one process, by turns; PyTorch's "
             "and CuPy's caching allocators in one of their own, called from Python, whose own "
             "share is a row. With work in flight: large memsets on another stream are under way "
             "at each of them.", "", "On an idle device:", "", *table(rows, "idle"), "",
             "With work in flight:", "", *table(rows, "busy"), "", *ratios(rows)]
    if missing:
        lines.append(f"Not installed here: {', '.join(missing)}.")
    return {"rows": rows}, lines
