# SPDX-License-Identifier: Apache-2.0
"""One module of numba-cuda's own tests: numba_tests.py OUT MODULE.

Writes a line "RESULT<tab>TEST" for each test into OUT, RESULT being ok, skipped, failed,
error, expected or unexpected; the status is 0 whatever they are.
"""
import sys
import unittest


class Journal(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def note(self, word, test):
        print(word, test.id(), sep="\t", file=self.out, flush=True)

    def tell(self, word, test, error):
        self.note(word, test)
        print(f"{word}: {test.id()}\n{self._exc_info_to_string(error, test)}", file=sys.stderr)

    def addSuccess(self, test):
        self.note("ok", test)

    def addSkip(self, test, reason):
        self.note("skipped", test)

    def addFailure(self, test, err):
        self.tell("failed", test, err)

    def addError(self, test, err):
        self.tell("error", test, err)

    def addExpectedFailure(self, test, err):
        self.note("expected", test)

    def addUnexpectedSuccess(self, test):
        self.note("unexpected", test)

    def addSubTest(self, test, subtest, err):
        if err:
            self.tell("failed", test, err)


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        unittest.defaultTestLoader.loadTestsFromName(sys.argv[2]).run(Journal(out))


if __name__ == "__main__":  # its children of multiprocessing import it
    main()
