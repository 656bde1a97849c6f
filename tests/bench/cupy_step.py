# SPDX-License-Identifier: Apache-2.0
"""CuPy without its pools: each temporary of a step is a cuMemAlloc and a cuMemFree.

cupy_step.py: prints the median step, the mean and the 90th percentile in nanoseconds, the most
device memory in use, and a hash of all results.

cupy_step.py switch N: N pairs of medians of 25 steps, with the interposer out of
the way and with it.
"""
import sys
import time

import cupy
import numpy

import steps

STEPS, WARM_UP, LAYERS, ROWS, WIDTH, BATCHES, SHORT = 200, 50, 8, 1024, 1024, 16, 25


def run(weights, batches, count):
    results, times = [], []
    for i in range(count):
        start = time.perf_counter_ns()
        data = cupy.asarray(batches[i % BATCHES])
        for weight in weights:
            data = cupy.tanh(data * weight + 0.25) - weight * 0.5
        results.append(float(data.mean()))
        times.append(time.perf_counter_ns() - start)
    return results, times


def main():
    steps.calm_down()
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    generator = numpy.random.default_rng(1)
    batches = [generator.standard_normal((ROWS, WIDTH), numpy.float32) for _ in range(BATCHES)]
    weights = [cupy.asarray(generator.standard_normal((ROWS, WIDTH), numpy.float32))
               for _ in range(LAYERS)]
    run(weights, batches, WARM_UP)
    if len(sys.argv) > 1:
        print(steps.switch_pairs(lambda: run(weights, batches, SHORT)[1],
                                 cupy.cuda.Device().synchronize, int(sys.argv[2])))
        return
    results, times = run(weights, batches, STEPS)
    with steps.HighWater() as water:
        run(weights, batches, WARM_UP)
    print("\t".join([*steps.summary(times), str(water.bytes), steps.digest(results)]))


main()
