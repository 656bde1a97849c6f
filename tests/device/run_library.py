# SPDX-License-Identifier: Apache-2.0
"""Runs libcustody on this machine's GPU: its unit tests, its examples, the stress test, the
bench of its resources, and numba-cuda's own tests of memory, streams, events and
contexts, bare and with deferred frees.

Called by scripts/gpu-library, whose --help tells the options. Exit status 77: there
is no GPU here.
"""
import argparse
import concurrent.futures
import glob
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PARTS = "unit", "examples", "stress", "numba", "bench"
POLICIES = "immediate", "deferred", "nowait"
NUMBA_MODULES = ["numba.cuda.tests." + name for name in (
    # what is freed late
    "cudadrv.test_deallocations", "cudadrv.test_emm_plugins",
    # memory and arrays
    "cudadrv.test_cuda_memory", "cudadrv.test_cuda_ndarray", "cudadrv.test_host_alloc",
    "cudadrv.test_managed_alloc", "cudadrv.test_pinned", "cudadrv.test_array_attr",
    "cudadrv.test_cuda_array_slicing", "cudadrv.test_cuda_devicerecord",
    "cudapy.test_cuda_array_interface", "cudapy.test_ipc",
    # streams and events
    "cudadrv.test_streams", "cudadrv.test_events", "cudapy.test_stream_api", "cudapy.test_sync",
    # devices and contexts
    "cudadrv.test_context_stack", "cudadrv.test_cuda_auto_context", "cudadrv.test_cuda_driver",
    "cudadrv.test_detect", "cudadrv.test_init", "cudadrv.test_profiler",
    "cudadrv.test_reset_device", "cudadrv.test_select_device", "cudapy.test_multithreads")]


class Tools:
    """Where the built things are: a stage (scripts/gpu-stage) or a build directory."""

    def __init__(self, stage):
        self.stage = pathlib.Path(stage).resolve()
        self.is_stage = (self.stage / "bin/custody").exists()
        self.custody = str(self.stage / ("bin/custody" if self.is_stage else "custody"))
        self.library = str(self.stage / ("lib" if self.is_stage else ".libs"))
        self.simulated = str(self.stage / ("lib/custody/libcuda-sim" if self.is_stage
                                           else "tests/support/simdriver/lib"))
        self.kernels = self.find("library", "tests/library/.libs", "example_kernels.so")

    def find(self, staged, built, name):
        return str(self.stage / (staged if self.is_stage else built) / name)

    def programs(self, staged, built, pattern):
        """Built programs: of libtool's, the program and not the script around it."""
        if self.is_stage:
            return sorted(glob.glob(str(self.stage / staged / pattern)))
        places = self.stage / built, self.stage / built / ".libs"
        found = {os.path.basename(name): name for place in places
                 for name in glob.glob(str(place / pattern)) if os.access(name, os.X_OK) and
                 os.path.isfile(name) and "." not in os.path.basename(name)}
        return [found[name] for name in sorted(found) if not name.startswith("lt-")]

    def environment(self, options, **more):
        values = {name: value for name, value in os.environ.items()
                  if not name.startswith(("CUSTODY_", "SIMCUDA_"))}
        places = [self.library] + ([self.simulated] if options.simulate else [])
        if values.get("LD_LIBRARY_PATH"):
            places.append(values["LD_LIBRARY_PATH"])
        return {**values, "LD_LIBRARY_PATH": ":".join(places), "CUSTODY_PROGRAM": self.custody,
                **more}


def run(command, values, limit, **more):
    """Exit status (124: it ran past the limit), output and error output."""
    try:
        done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=limit, check=False, **more)
    except subprocess.TimeoutExpired:
        return 124, "", f"ran past {limit} s"
    return done.returncode, done.stdout, done.stderr


def query(tools, trace, sql):
    status, out, _ = run([tools.custody, "sql", "--format=csv", trace, sql], None, 60)
    return [line.strip('"') for line in out.splitlines()[1:]] if status == 0 else None


# ------------------------------------------------------------------ unit tests

ONLY_SIMULATED = r"SIMCUDA_|fixture_watch|fixture_calls|fixture_run"


def bodies(text):
    """Names and bodies of the functions and tests of a source."""
    for match in re.finditer(r"^START_TEST\((\w+)\)\n\{(.*?)^\}", text, re.M | re.S):
        yield match[1], match[2]
    for match in re.finditer(r"^[a-z][^;{}=]*?(\w+)\([^;{}]*\)\n\{(.*?)^\}", text, re.M | re.S):
        yield match[1], match[2]


def only_simulated(source):
    """Tests of a source that play with the simulated driver, by themselves or by a helper."""
    found = dict(bodies(source))
    words, before = ONLY_SIMULATED, None
    names = set()
    while names != before:
        before = set(names)
        names = {name for name, body in found.items() if re.search(words, body)}
        words = "|".join([ONLY_SIMULATED] + [rf"\b{name}\(" for name in sorted(names)])
    # A set-up that does so goes for all tests of the file.
    setups = re.findall(r"add_(?:un)?checked_fixture\(\w+,\s*(\w+)", source)
    if names & set(setups):
        return set(found)
    setup = None
    for match in re.finditer(r'fixture_case\(\w+, "[^"]*", (\w+)\)|tcase_add_\w*test\(\w+, (\w+)',
                             source):
        setup = match[1] or setup
        if match[2] and setup in names:
            names = names | {match[2]}
    return names


def read_check(out):
    """Test -> passed, failed or died, from what Check prints when it is verbose."""
    words = {"P": "passed", "F": "failed", "E": "died", "S": "skipped"}
    results = {match[2]: words[match[1]]
               for match in re.finditer(r"^.*?:\d+:([PFES]):[^:]*:(\w+):\d+: ", out, re.M)}
    total = re.search(r"^100%: Checks: (\d+), Failures: 0, Errors: 0$", out, re.M)
    if total and not results:  # one that says no more than that
        return {f"test {i}": "passed" for i in range(int(total[1]))}
    return results


def run_program(tools, options, program, log):
    """Results of a program's tests, those apart that need the simulated driver, and what failed."""
    name = os.path.basename(program)
    source = (ROOT / "tests/library" / (name + ".c")).read_text()
    values = tools.environment(options, CK_VERBOSITY="verbose", CK_DEFAULT_TIMEOUT="60")
    status, out, error = run([program], values, 240)
    log.write(f"==== {name}: {status}\n{out}\n{error}\n")
    results, apart = read_check(out), only_simulated(source) if not options.simulate else set()
    failed = sorted(test for test, word in results.items()
                    if word in ("failed", "died") and test not in apart)
    if not results or status in (124, 127):
        failed.append(f"(the program ended with {status})")
    return results, apart & set(results), failed


def run_unit(tools, options, log):
    """Programs beside each other; what failed so has another turn alone."""
    programs = tools.programs("library", "tests/library", "test_*")
    lines = ["| program | tests | passed | only on the simulated driver | failed |",
             "| --- | ---: | ---: | ---: | --- |"]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(1 if options.simulate else options.jobs) as pool:
        first = list(pool.map(lambda program: run_program(tools, options, program, log), programs))
    for program, (results, apart, failed) in zip(programs, first):
        if failed and not options.simulate:
            results, apart, failed = run_program(tools, options, program, log)
        passed = sum(word == "passed" for word in results.values())
        lines.append(f"| {os.path.basename(program)} | {len(results)} | {passed} | {len(apart)} "
                     f"| {', '.join(failed)} |")
        bad += len(failed)
    return bad or not programs, lines


# ------------------------------------------------------------------ examples

SETTINGS = {"out_of_memory": {"SIMCUDA_MEMORY": "2G"}, "completion_poll":
            {"SIMCUDA_MEMSET_US": "20000"}}
LOOP = ("WITH block AS (SELECT * FROM allocation WHERE kind = 'device' AND bytes = 1048576 "
        "ORDER BY alloc_ns LIMIT -1 OFFSET 1) SELECT count(*) || ' ' || sum(released_ns <= "
        "(SELECT max(free_requested_ns) FROM block)) FROM block")


def example_command(tools, program, how, trace):
    if how in POLICIES:
        return [tools.custody, "record", "-q", "-f", "-o", trace, f"--frees={how}", "--", program]
    return [program]


def run_example(tools, options, program, log):
    """What is wrong with it, as a list: bare, recording itself, and preloaded."""
    name, wrong, first = os.path.basename(program), [], None
    # What knows its own file says its name.
    same = name != "trace_myself"
    for how in ("bare", "itself", *POLICIES):
        trace = str(pathlib.Path(options.out) / "work" / f"{name}-{how}.db")
        values = tools.environment(options)
        if options.simulate:
            values.update(SETTINGS.get(name, {}), SIMCUDA_KERNELS=tools.kernels)
        if how == "itself":
            values["CUSTODY_OUTPUT"] = trace
        status, out, error = run(example_command(tools, program, how, trace), values, 120,
                                 cwd=pathlib.Path(options.out) / "work")
        log.write(f"==== {name}, {how}: {status}\n{out}\n{error}\n")
        first = out if first is None else first
        if status:
            wrong.append(f"{how}: status {status}")
        elif same and out != first and name != "out_of_memory":
            wrong.append(f"{how}: another output")
        if how != "bare" and name != "ipc_pair" and not status:
            wrong += look_at_trace(tools, name, how, trace)
    return wrong


def look_at_trace(tools, name, how, trace):
    if name == "trace_myself" and how == "itself":
        return []
    deadline = time.monotonic() + 20
    while query(tools, trace, "SELECT value FROM meta WHERE key = 'complete'") != ["1"]:
        if time.monotonic() > deadline:
            return [f"{how}: no whole trace"]
        time.sleep(0.05)
    wrong = []
    if query(tools, trace, "SELECT count(*) FROM gap") != ["0"]:
        wrong.append(f"{how}: records were lost")
    if query(tools, trace, "SELECT count(*) FROM finding") != ["0"]:
        wrong.append(f"{how}: findings")
    if name == "defer_cleanup_loop" and query(tools, trace, LOOP) != ["40 0"]:
        wrong.append(f"{how}: the loop {query(tools, trace, LOOP)}")
    return wrong


def run_dlpack(tools, options, log):
    values = tools.environment(options, PYTHONDONTWRITEBYTECODE="1")
    module = tools.find("library", "examples/.libs", "dlpack_numpy.so")
    status, out, error = run([sys.executable, str(ROOT / "examples/dlpack_numpy.py"), module],
                             values, 120)
    log.write(f"==== dlpack_numpy: {status}\n{out}\n{error}\n")
    if status and "No module named 'numpy'" in error:
        return "there is no NumPy", []
    partners = [name for name in ("numpy", "torch") if re.search(rf"^{name} ", out, re.M)]
    return "with " + " and ".join(partners), [f"status {status}"] if status else []


def run_examples(tools, options, log):
    lines = ["Bare, recording itself, and under `custody record` with each policy of frees.", "",
             "| example | |", "| --- | --- |"]
    bad = 0
    for program in tools.programs("examples", "examples", "*"):
        wrong = run_example(tools, options, program, log)
        lines.append(f"| {os.path.basename(program)} | {'; '.join(wrong) or 'good'} |")
        bad += len(wrong)
    text, wrong = run_dlpack(tools, options, log)
    lines.append(f"| dlpack_numpy, {text} | {'; '.join(wrong) or 'good'} |")
    return bad + len(wrong) or len(lines) < 6, lines


# ------------------------------------------------------------------ stress, bench


def run_stress(tools, options, log):
    lines, bad = [], 0
    program = tools.programs("library", "tests/library", "stress")[0]
    for how in ("bare", "itself", "nowait"):
        trace = str(pathlib.Path(options.out) / "work" / f"stress-{how}.db")
        values = tools.environment(options)
        if how == "itself":
            values["CUSTODY_OUTPUT"] = trace
        command = example_command(tools, program, how, trace)
        status, out, error = run([*command, str(options.seconds), "64"], values,
                                 60 + 4 * options.seconds)
        log.write(f"==== stress, {how}: {status}\n{out}\n{error}\n")
        lines.append(f"* {how}: {out.strip() or 'nothing said'}; status {status}")
        bad += status != 0
    return bad, lines


def run_bench(tools, options, log):
    out = pathlib.Path(options.out) / "bench"
    command = [str(ROOT / "scripts/gpu-bench"), "--stage", str(tools.stage), "--only", "resources",
               "--out", str(out)]
    status, said, error = run(command + (["--quick"] if options.quick else []), None, 500)
    log.write(f"==== bench: {status}\n{said}\n{error}\n")
    return status, said.splitlines() or [error]


# ------------------------------------------------------------------ numba's own tests


def unpack_wheels(options):
    site = pathlib.Path(options.out) / "work" / "site"
    for wheel in glob.glob(str(pathlib.Path(options.wheels) / "*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return str(site)


def run_numba_module(tools, options, module, how, site):
    work = pathlib.Path(options.out) / "work"
    short = module.rsplit(".", 1)[1]
    out, trace = work / f"{short}-{how}.txt", work / f"{short}-{how}.db"
    command = [options.python, str(HERE / "numba_tests.py"), str(out), module]
    if how != "bare":
        command = [tools.custody, "record", "-q", "-f", "-o", str(trace), f"--frees={how}", "--",
                   *command]
    values = tools.environment(options, PYTHONDONTWRITEBYTECODE="1",
                               NUMBA_CACHE_DIR=str(work / "numba"))
    values["PYTHONPATH"] = ":".join([site] + [path for path in (values.get("PYTHONPATH"),) if path])
    values["LD_LIBRARY_PATH"] = tools.simulated if options.simulate else os.environ.get(
        "LD_LIBRARY_PATH", "")
    status, said, error = run(command, values, options.numba_limit)
    results = {}
    if out.exists():
        for line in out.read_text().splitlines():
            word, test = line.split("\t")
            results.setdefault(test, word)
            if word in ("failed", "error"):
                results[test] = word
    if trace.exists():
        trace.unlink()
    return status, results, said + error


def compare_numba(module, bare, other):
    """Row of the table, and tests whose result is not the same."""
    names = sorted(set(bare[1]) | set(other[1]))
    differ = [f"{name.split('.')[-1]} ({bare[1].get(name, 'not run')}, "
              f"{other[1].get(name, 'not run')})" for name in names
              if bare[1].get(name) != other[1].get(name)]
    if bare[0] != other[0]:
        differ.append(f"status {bare[0]} and {other[0]}")
    if not names:
        differ.append("no test was run")
    words = [sum(word == wanted for word in bare[1].values())
             for wanted in ("ok", "skipped", "failed", "error")]
    row = f"| {module.removeprefix('numba.cuda.tests.')} | {len(names)} | "
    return row + f"{words[0]} | {words[1]} | {words[2] + words[3]} | {', '.join(differ)} |", differ


def run_numba(tools, options, log):
    probe = "import numba.cuda.testing"
    site = unpack_wheels(options)
    values = dict(os.environ, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE="1")
    status, _, error = run([options.python, "-c", probe], values, 120)
    if status:
        return True, [f"numba-cuda's tests cannot be run: {error.strip().splitlines()[-1:]}"]
    lines = ["| module | tests | ok | skipped | failed bare | not the same under "
             "`record --frees=deferred` |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = {(module, how): pool.submit(run_numba_module, tools, options, module, how, site)
                for module in options.modules for how in ("bare", "deferred")}
        for module in options.modules:
            bare, other = jobs[module, "bare"].result(), jobs[module, "deferred"].result()
            log.write(f"==== {module}, bare: {bare[0]}\n{bare[2]}\n"
                      f"==== {module}, deferred: {other[0]}\n{other[2]}\n")
            row, differ = compare_numba(module, bare, other)
            lines.append(row)
            bad += len(differ)
    return bad, lines


# ------------------------------------------------------------------ main


def has_gpu():
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    return not subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL,
                              check=False).returncode


def describe_machine(options):
    if options.simulate:
        return "On the simulated driver."
    name = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], None,
               60)[1].strip()
    return f"Measured on {name}, {time.strftime('%Y-%m-%d')}."


def parse_options():
    parser = argparse.ArgumentParser(prog="gpu-library", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--only", default=",".join(PARTS), help="parts [%(default)s]")
    parser.add_argument("--out", default="gpu-library-out", help="results go here [%(default)s]")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated driver; what can run there")
    parser.add_argument("--quick", action="store_true", help="few calls of the bench")
    parser.add_argument("--seconds", type=int, default=15, help="of the stress test [%(default)s]")
    parser.add_argument("--wheels", default=".whl", help="wheels for numba: an older NumPy, and "
                        "filecheck, which its tests import [%(default)s]")
    parser.add_argument("--python", default=sys.executable, help="that has numba-cuda")
    parser.add_argument("--modules", type=lambda text: text.split(","), default=NUMBA_MODULES,
                        help="numba-cuda's modules of tests, instead of the list")
    parser.add_argument("--numba-limit", type=int, default=150,
                        help="seconds for one of them [%(default)s]")
    parser.add_argument("--jobs", type=int, default=max(2, min(6, (os.cpu_count() or 2) // 2)),
                        help="of them at the same time [%(default)s]")
    return parser.parse_args()


def main():
    options = parse_options()
    options.out = str(pathlib.Path(options.out).resolve())
    (pathlib.Path(options.out) / "work").mkdir(parents=True, exist_ok=True)
    if not options.simulate and not has_gpu():
        print("gpu-library: there is no GPU here", file=sys.stderr)
        return 77
    tools = Tools(options.stage)
    if not os.path.exists(tools.custody):
        print(f"gpu-library: nothing built in {options.stage}", file=sys.stderr)
        return 1
    parts = {"unit": run_unit, "examples": run_examples, "stress": run_stress,
             "numba": run_numba, "bench": run_bench}
    text, failed = [describe_machine(options), ""], []
    print(text[0])
    with open(pathlib.Path(options.out) / "gpu-library.log", "w", encoding="utf-8") as log:
        for name in options.only.split(","):
            begin = time.monotonic()
            bad, lines = parts[name](tools, options, log)
            if bad:
                failed.append(name)
            part = [f"### {name}", "", *lines, ""]
            print("\n".join(part) + f"\n({time.monotonic() - begin:.0f} s)", flush=True)
            text += part
            (pathlib.Path(options.out) / "gpu-library.md").write_text("\n".join(text))
    print(f"gpu-library: {', '.join(failed) or 'nothing'} went wrong")
    return 1 if failed else 0


sys.exit(main())
