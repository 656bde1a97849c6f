# SPDX-License-Identifier: Apache-2.0
"""numba-cuda: device arrays, pinned arrays and a kernel.

The journal is the program's own: it knows each array that it allocates and
each copy that it makes.
"""
import sys

import numpy
from numba import cuda

import journal

ROUNDS, WORDS = 12, 1 << 18
SIZE = 4 * WORDS


@cuda.jit
def scramble(word, seed):
    i = cuda.grid(1)
    if i < word.size:
        word[i] = word[i] * 5 + seed


def run():
    pinned = cuda.pinned_array(WORDS, dtype=numpy.uint32)
    for i in range(ROUNDS):
        pinned[:] = numpy.arange(WORDS, dtype=numpy.uint32)
        there = cuda.to_device(pinned)
        scramble[WORDS // 256, 256](there, i)
        other = cuda.device_array_like(there)
        other.copy_to_device(there)
        back = other.copy_to_host()
        print("round", i, hex(int(back.astype(numpy.uint64).sum())))
    journal.note(check="allocation", kind="device", count=2 * ROUNDS, bytes=2 * ROUNDS * SIZE,
                 at_least=SIZE, source="own journal")
    journal.note(check="allocation", kind="pinned", count=1, bytes=SIZE, at_least=SIZE,
                 source="own journal")
    for kind in "H2D", "D2D", "D2H":
        journal.note(check="transfer", kind=kind, count=ROUNDS, bytes=ROUNDS * SIZE, at_least=SIZE,
                     source="own journal")


if not cuda.is_available():
    sys.exit(77)
run()
