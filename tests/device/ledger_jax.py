# SPDX-License-Identifier: Apache-2.0
"""JAX for the ledger; XLA_PYTHON_CLIENT_PREALLOCATE chooses how it gets its memory."""
import ctypes
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import jax
import jax.numpy

import journal

WIDTH, STEPS, BLOCKS, WORDS = 1024, 10, 40, 25_000_000

driver = ctypes.CDLL("libcuda.so.1")


@jax.jit
def step(weight, data):
    loss, slope = jax.value_and_grad(
        lambda w: jax.numpy.mean((jax.numpy.tanh(data @ w) - data) ** 2))(weight)
    return weight - 0.1 * slope, loss


def note(moment):
    """Asks the driver on its own, in the context that JAX has made current."""
    for _ in range(6):
        jax.numpy.zeros(4).block_until_ready()
        time.sleep(0.01)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuDevicePrimaryCtxRelease_v2(0)
    stats = jax.devices()[0].memory_stats()
    journal.note(check="ledger", moment=moment, used=total.value - free.value,
                 held=stats.get("pool_bytes"))


def main():
    weight = jax.numpy.eye(WIDTH)
    data = jax.numpy.ones((64, WIDTH))
    for i in range(STEPS):
        weight, loss = step(weight, data)
        print("step", i, journal.bits(loss))
    note("before")
    blocks = [jax.numpy.full((WORDS,), float(i)).block_until_ready() for i in range(BLOCKS)]
    print("blocks", journal.bits(sum(float(block[-1]) for block in blocks)))
    note("peak")
    del blocks
    note("end")


main()
