# SPDX-License-Identifier: Apache-2.0
"""CuPy: arrays, a kernel of its own, copies both ways.

The independent count is CuPy's: its pool knows the bytes it took from the
driver, and the program knows what it copied.
"""
import cupy
import numpy

import journal

ROUNDS, WORDS = 10, 1 << 20

scramble = cupy.ElementwiseKernel("uint32 x, uint32 seed", "uint32 y", "y = x * 1664525u + seed",
                                  "scramble")


def run():
    pool = cupy.get_default_memory_pool()
    kept = []
    for i in range(ROUNDS):
        host = numpy.arange(WORDS * (1 + i % 3), dtype=numpy.uint32)
        there = cupy.asarray(host)
        kept.append(scramble(there, i))
        back = cupy.asnumpy(kept[-1])
        print("round", i, hex(int(back.astype(numpy.uint64).sum())))
        journal.note_live("device", pool.total_bytes(), source="cupy pool total_bytes")
        if i == ROUNDS // 2:
            kept.clear()
            del there
            pool.free_all_blocks()
            journal.note_live("device", pool.total_bytes(), source="cupy pool total_bytes")
    size = sum(4 * WORDS * (1 + i % 3) for i in range(ROUNDS))
    for kind in "H2D", "D2H":
        journal.note(check="transfer", kind=kind, count=ROUNDS, bytes=size, at_least=1024,
                     source="own journal")


run()
