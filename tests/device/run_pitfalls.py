# SPDX-License-Identifier: Apache-2.0
"""The traps of the driver's interface, bare and recorded under each policy of frees.

Called by scripts/gpu-pitfalls, whose --help tells the options. Exit status 77: there is
no GPU here.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = 77
POLICIES = "immediate", "deferred", "nowait"
# What `nowait` promises to answer otherwise: a free inside a capture succeeds.
OTHERWISE = {("capture-own", "nowait"), ("capture-others", "nowait"),
             ("module-variables", "nowait")}


def cases():
    """Case -> what the list of pitfalls.sh says of it: yes, no, with two, where it can."""
    text = (ROOT / "tests/e2e/pitfalls.sh").read_text()
    rows = re.findall(r"^#\t.*?\t([a-z-]+)\t+(yes|no|with two|where it can)$", text, re.M)
    return dict(rows)


class Run:
    """Where things are, and one run of a case."""

    def __init__(self, options):
        stage = pathlib.Path(options.stage).resolve()
        is_stage = (stage / "bin/custody").exists()
        self.custody = str(stage / ("bin/custody" if is_stage else "custody"))
        self.program = str(stage / ("device/pitfall" if is_stage else "tests/e2e/pitfall"))
        self.simulated = str(stage / ("lib/custody/libcuda-sim" if is_stage else
                                      "tests/support/simdriver/lib"))
        self.out, self.simulate = pathlib.Path(options.out).resolve(), options.simulate
        self.timeout = options.timeout

    def __call__(self, case, policy=None):
        command, values = [self.program, case], dict(os.environ)
        if self.simulate and not policy:
            values["LD_LIBRARY_PATH"] = self.simulated
        if self.simulate:
            values["SIMCUDA_DEVICES"] = "2"
        if policy:
            trace = str(self.out / f"{case}-{policy}.db")
            command = [self.custody, "record", "-q", "-f", "-o", trace, f"--frees={policy}",
                       *(["--simulate"] if self.simulate else []), "--", *command]
        try:
            done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=self.timeout, check=False)
            answer = done.returncode, done.stdout.decode("utf-8", "replace")
            error = done.stderr.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            answer, error = ("timeout", ""), ""
        name = f"{case}.{policy or 'bare'}"
        (self.out / name).write_text(f"{answer[1]}status {answer[0]}\n{error}")
        return answer


def difference(bare, seen):
    """The first line that is not the same."""
    if bare[0] != seen[0]:
        return f"status {seen[0]}, bare {bare[0]}"
    for one, other in zip(bare[1].splitlines() + [""], seen[1].splitlines() + [""]):
        if one != other:
            return f"{other!r}, bare {one!r}"
    return ""


def judge(run, case, where):
    """A row of the table, and whether it is bad."""
    bare = run(case)
    if bare[0] == SKIPPED or where == "no":
        return f"| {case} | {where} | not here |", False
    if bare[0]:
        return f"| {case} | {where} | bare: status {bare[0]} |", True
    differ = []
    for policy in POLICIES:
        found = difference(bare, run(case, policy))
        if found and (case, policy) not in OTHERWISE:
            differ.append(f"{policy}: {found}")
    return f"| {case} | {where} | {'; '.join(differ) or 'the same'} |", bool(differ)


def main():
    parser = argparse.ArgumentParser(prog="gpu-pitfalls", description=__doc__)
    parser.add_argument("--stage", default=".stage",
                        help="folder made by scripts/gpu-stage, or a build directory [%(default)s]")
    parser.add_argument("--out", default="gpu-pitfalls-out", help="results go here [%(default)s]")
    parser.add_argument("--timeout", type=float, default=30, help="seconds a run [%(default)s]")
    parser.add_argument("--jobs", type=int, default=1,
                        help="cases beside each other; those that measure memory then differ "
                        "[%(default)s]")
    parser.add_argument("--only", default="", help="cases, with commas [all]")
    parser.add_argument("--simulate", action="store_true", help="on two simulated devices")
    options = parser.parse_args()
    if not options.simulate and not pathlib.Path("/dev/nvidiactl").exists():
        print("gpu-pitfalls: there is no GPU here", file=sys.stderr)
        return SKIPPED
    run = Run(options)
    run.out.mkdir(parents=True, exist_ok=True)
    chosen = {case: where for case, where in cases().items()
              if not options.only or case in options.only.split(",")}
    lines = ["| trap | on a GPU | under immediate, deferred, nowait |", "| --- | --- | --- |"]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for line, is_bad in pool.map(lambda item: judge(run, *item), chosen.items()):
            print(line, flush=True)
            lines.append(line)
            bad += is_bad
    lines += ["", f"{len(chosen)} traps, {bad} not the same."]
    print(lines[-1])
    (run.out / "gpu-pitfalls.md").write_text("\n".join(lines) + "\n")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
