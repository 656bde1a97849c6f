# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training step, timed: eight 1024 x 1024 layers, 500 steps a block.

Says "ready" when it has warmed up, then runs one block for each line it reads
and answers with the nanoseconds it took and a hash of the block's losses, to
their last bit.  So two processes can take turns on one GPU.
"""
import hashlib
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

STEPS = int(os.environ.get("STEPS", "500"))
BATCH, WIDTH, LAYERS, BATCHES = 256, 1024, 8, 16


def build():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def run(model, optimizer, batches, steps):
    """Returns the losses; one pinned copy up and one read-back a step."""
    losses = []
    for i in range(steps):
        data = batches[i % BATCHES].cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(data) - data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    batches = [torch.randn(BATCH, WIDTH).pin_memory() for _ in range(BATCHES)]
    run(*build(), batches, 50)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for _ in sys.stdin:
        model, optimizer = build()
        torch.cuda.synchronize()
        start = time.monotonic_ns()
        losses = run(model, optimizer, batches, STEPS)
        taken = time.monotonic_ns() - start
        text = " ".join(loss.hex() for loss in losses)
        print(taken, hashlib.sha256(text.encode("ascii")).hexdigest(), flush=True)


torch.manual_seed(1)
main()
