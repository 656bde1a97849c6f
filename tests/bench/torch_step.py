# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training step, timed: eight 1024 x 1024 layers.

torch_step.py run: 500 steps, each timed by itself; prints the median step, the
mean and the 90th percentile in nanoseconds and a hash of all losses, to their
last bit.

torch_step.py frees: the same, with tabs, and before the hash the most device memory
that was in use in some steps more.

torch_step.py switch N: N pairs of medians, of 25 steps with the interposer out
of the way and 25 with it (switch_preload.c must be loaded above it).
"""
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import steps

STEPS = int(os.environ.get("STEPS", "500"))
BATCH, WIDTH, LAYERS, BATCHES, SHORT = 256, 1024, 8, 16, 25


def build():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def run(model, optimizer, batches, count):
    """Returns losses and nanoseconds; one pinned copy up and one read-back a step."""
    losses, times = [], []
    for i in range(count):
        start = time.perf_counter_ns()
        data = batches[i % BATCHES].cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(data) - data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter_ns() - start)
    return losses, times


def time_steps(batches):
    losses, times = run(*build(), batches, STEPS)
    return " ".join([*steps.summary(times), steps.digest(losses)])


def time_frees(batches):
    model, optimizer = build()
    losses, times = run(model, optimizer, batches, STEPS)
    with steps.HighWater() as water:
        run(model, optimizer, batches, 2 * SHORT)
    return "\t".join([*steps.summary(times), str(water.bytes), steps.digest(losses)])


def switch_steps(batches, pairs):
    model, optimizer = build()
    run(model, optimizer, batches, 4 * SHORT)
    return steps.switch_pairs(lambda: run(model, optimizer, batches, SHORT)[1],
                              torch.cuda.synchronize, pairs)


def main():
    steps.calm_down()
    torch.set_num_threads(1)
    batches = [torch.randn(BATCH, WIDTH).pin_memory() for _ in range(BATCHES)]
    run(*build(), batches, 100)
    torch.cuda.synchronize()
    if sys.argv[1] == "switch":
        print(switch_steps(batches, int(sys.argv[2])))
    else:
        print((time_frees if sys.argv[1] == "frees" else time_steps)(batches))


torch.manual_seed(1)
main()
