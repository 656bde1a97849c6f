# SPDX-License-Identifier: Apache-2.0
"""CuPy for the ledger: usage ledger_cupy.py pool|async|managed.

Arrays out of CuPy's pool, out of the driver's stream-ordered pool, or of managed
memory that kernels fill; with cuBLAS, cuFFT, cuSPARSE and a kernel compiled by
NVRTC on the way.
"""
import sys
import time

import cupy
import cupyx.scipy.sparse

import journal

BLOCKS, WORDS = 60, 32_000_000

count_up = cupy.RawKernel(r"""
extern "C" __global__ void count_up(float *x, int n) {
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		x[i] += 1;
}""", "count_up")


def choose(what):
    """The allocator, and how to ask it what it has from the driver."""
    if what == "async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
        return lambda: None
    source = cupy.cuda.malloc_managed if what == "managed" else None
    pool = cupy.cuda.MemoryPool(source) if source else cupy.cuda.MemoryPool()
    cupy.cuda.set_allocator(pool.malloc)
    return pool.total_bytes


def note(moment, held):
    for _ in range(6):
        cupy.cuda.Device().synchronize()
        time.sleep(0.01)
    free, total = cupy.cuda.Device().mem_info
    journal.note(check="ledger", moment=moment, used=total - free, held=held())


def warm_up():
    line = cupy.arange(1 << 20, dtype=cupy.float32)
    square = line.reshape(1024, 1024) / (1 << 20)
    print("product", journal.bits(float(cupy.dot(square, square)[7, 9])))
    print("wave", journal.bits(float(abs(cupy.fft.fft(line[:4096])).sum())))
    eye = cupyx.scipy.sparse.identity(64, dtype=cupy.float32, format="csr")
    print("sparse", journal.bits(float((eye @ eye).sum())))


def main(what):
    held = choose(what)
    warm_up()
    note("before", held)
    blocks = [cupy.zeros(WORDS, dtype=cupy.float32) for _ in range(BLOCKS)]
    for block in blocks:
        count_up((256,), (256,), (block, WORDS))
    print("blocks", journal.bits(float(sum(block[-1] for block in blocks))))
    note("peak", held)
    del blocks, block
    if what != "async":
        cupy.cuda.get_allocator().__self__.free_all_blocks()
    note("end", held)


main(sys.argv[1])
