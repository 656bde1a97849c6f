# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training step, timed: eight 1024 x 1024 layers.

Says "ready" when it has warmed up, then answers each line it reads.  To "run"
with one block of 500 steps: the block's median step in nanoseconds and a hash
of its losses, to their last bit.  So two processes can take turns on one GPU.
To "switch N" with N pairs of medians, of 25 steps with the interposer out of
the way and 25 with it (switch_preload.c must be loaded above it).
"""
import ctypes
import hashlib
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

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


def run(model, optimizer, batches, steps):
    """Returns losses and nanoseconds; one pinned copy up and one read-back a step."""
    losses, times = [], []
    for i in range(steps):
        start = time.perf_counter_ns()
        data = batches[i % BATCHES].cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(data) - data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter_ns() - start)
    return losses, times


def answer_run(batches):
    model, optimizer = build()
    run(model, optimizer, batches, 10)
    losses, times = run(model, optimizer, batches, STEPS)
    text = " ".join(loss.hex() for loss in losses)
    return f"{statistics.median(times):.0f} {hashlib.sha256(text.encode('ascii')).hexdigest()}"


def answer_switch(batches, pairs):
    switch = ctypes.CDLL(None).switch_set
    model, optimizer = build()
    run(model, optimizer, batches, 4 * SHORT)
    found = []
    for pair in range(pairs):
        median = {}
        for is_on in (0, 1) if pair % 2 else (1, 0):
            torch.cuda.synchronize()
            switch(is_on)
            median[is_on] = statistics.median(run(model, optimizer, batches, SHORT)[1])
        found.append(f"{median[0]:.0f},{median[1]:.0f}")
    switch(1)
    return " ".join(found)


def main():
    batches = [torch.randn(BATCH, WIDTH).pin_memory() for _ in range(BATCHES)]
    run(*build(), batches, 50)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "switch":
            print(answer_switch(batches, int(words[1])), flush=True)
        else:
            print(answer_run(batches), flush=True)


torch.manual_seed(1)
main()
