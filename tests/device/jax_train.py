# SPDX-License-Identifier: Apache-2.0
"""JAX: a jitted training loop; its allocator is XLA's own.

The independent count is XLA's: the bytes its pool took from the driver (as
virtual memory; cuBLAS and cuDNN allocate beside it), and the program's own of
the batches it sent.
"""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import jax
import jax.numpy
import numpy

import journal

STEPS, BATCH, WIDTH = 50, 256, 1024


def loss_of(weights, data):
    out = data
    for weight in weights:
        out = jax.numpy.tanh(out @ weight)
    return jax.numpy.mean((out - data) ** 2)


@jax.jit
def step(weights, data):
    loss, slopes = jax.value_and_grad(loss_of)(weights, data)
    return [w - 0.1 * s for w, s in zip(weights, slopes)], loss


def run():
    random = numpy.random.default_rng(0)
    weights = [jax.numpy.asarray(random.standard_normal((WIDTH, WIDTH), dtype=numpy.float32) / 32)
               for _ in range(4)]
    for i in range(STEPS):
        batch = random.standard_normal((BATCH, WIDTH), dtype=numpy.float32)
        weights, loss = step(weights, jax.device_put(batch))
        print("step", i, journal.bits(loss))
    return weights


def note_pool():
    stats = jax.devices()[0].memory_stats()
    if "pool_bytes" in stats:
        journal.note_live("vmm", stats["pool_bytes"], source="jax memory_stats pool_bytes")
    journal.note(check="note", kind="jax memory_stats", text=str(stats))


last = run()
jax.block_until_ready(last)
note_pool()
sent = STEPS * BATCH * WIDTH * 4 + 4 * WIDTH * WIDTH * 4
journal.note(check="transfer", kind="H2D", count=STEPS + 4, bytes=sent, at_least=BATCH * WIDTH * 4,
             source="own journal")
