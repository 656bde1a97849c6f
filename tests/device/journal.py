# SPDX-License-Identifier: Apache-2.0
"""What a Python test program knows that it did; the same lines as journal.h writes."""
import json
import os
import time


def note(**row):
    """Append one line: check=, kind= or api=, count=, bytes=, and what narrows the rows:
    at= (a moment), caller= (part of the path of the calling library)."""
    path = os.environ.get("JOURNAL")
    if path:
        with open(path, "a", encoding="ascii") as file:
            file.write(json.dumps(row) + "\n")


def note_live(kind, size, **more):
    note(check="live", kind=kind, bytes=size, at=time.monotonic_ns(), **more)


def bits(value):
    """A float to its last bit."""
    return float(value).hex()
