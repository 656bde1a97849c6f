# SPDX-License-Identifier: Apache-2.0
"""PyTorch for the ledger: usage ledger_torch.py train|graph|nccl.

A training loop over convolutions (cuDNN), matrix products (cuBLAS), Fourier
transforms (cuFFT) and a sparse product (cuSPARSE); how PyTorch gets its memory
is chosen by PYTORCH_CUDA_ALLOC_CONF and PYTORCH_NO_CUDA_MEMORY_CACHING.  What is
printed are losses to the last bit.
"""
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import journal

STEPS, BATCH, SIDE = 12, 32, 64
PEAK_BLOCKS, BLOCK_BYTES = 96, 50_000_000


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.line = torch.nn.Linear(16 * SIDE * SIDE, 128)
        self.last = torch.nn.Linear(128, 1)

    def forward(self, data):
        out = torch.relu(self.conv(data))
        return self.last(torch.tanh(self.line(out.flatten(1))))


def step(model, optimizer, data):
    optimizer.zero_grad(set_to_none=False)
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def held_by_torch():
    """The bytes that PyTorch says it has from the driver; None where it does not know."""
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        return None
    return torch.cuda.memory_reserved()


def settle():
    """A while of quiet steps, as real programs have at their peak."""
    for _ in range(6):
        torch.cuda.synchronize()
        time.sleep(0.01)


def note(moment):
    settle()
    free, total = torch.cuda.mem_get_info()
    journal.note(check="ledger", moment=moment, used=total - free, held=held_by_torch())


def warm_up(model, optimizer, data):
    for i in range(STEPS):
        print("step", i, journal.bits(step(model, optimizer, data).item()))
    wave = torch.fft.fft(data.flatten()[:4096])
    eye = torch.eye(64, device="cuda").to_sparse_csr()
    print("wave", journal.bits(wave.abs().sum().item()),
          "sparse", journal.bits((eye @ torch.ones(64, 8, device="cuda")).sum().item()))


def train(model, optimizer, data):
    for i in range(STEPS):
        loss = step(model, optimizer, data)
    print("trained", journal.bits(loss.item()))


def replay(model, optimizer, data):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(model, optimizer, data)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimizer, data)
    for i in range(STEPS):
        data.fill_(i / STEPS)
        graph.replay()
        print("replay", i, journal.bits(loss.item()))
    return graph


def reduce():
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1",
                      MASTER_PORT=str(20000 + os.getpid() % 20000))
    torch.distributed.init_process_group("nccl")
    ones = torch.ones(1 << 22, device="cuda")
    for i in range(4):
        torch.distributed.all_reduce(ones)
        print("reduced", i, journal.bits(ones.sum().item()))


def main(what):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.rand(BATCH, 3, SIDE, SIDE).cuda()
    warm_up(model, optimizer, data)
    kept = replay(model, optimizer, data) if what == "graph" else None
    if what == "nccl":
        reduce()
    note("before")
    blocks = [torch.full((BLOCK_BYTES // 4,), float(i), device="cuda")
              for i in range(PEAK_BLOCKS)]
    print("blocks", journal.bits(sum(block[-1] for block in blocks).item()))
    note("peak")
    del blocks
    train(model, optimizer, data)
    torch.cuda.empty_cache()
    note("end")
    del kept
    if what == "nccl":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
