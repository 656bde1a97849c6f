# SPDX-License-Identifier: Apache-2.0
"""PyTorch DistributedDataParallel on two GPUs, two ranks started by this program.

Every loss of rank 0 is printed to its last bit; each rank notes what its own
allocator holds and what the driver says of its device.
"""
import os
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.distributed
import torch.multiprocessing

import journal
from ledger_torch import settle

RANKS, STEPS, WIDTH, KEPT = 2, 20, 2048, 40


def note(rank, moment):
    settle()
    free, total = torch.cuda.mem_get_info()
    journal.note(check="ledger", moment=moment, rank=rank, pid=os.getpid(), used=total - free,
                 held=torch.cuda.memory_reserved())


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(RANKS))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
                                torch.nn.Linear(WIDTH, 1)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.rand(64, WIDTH, device="cuda") + rank
    for i in range(STEPS):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("step", i, journal.bits(loss.item()), flush=True)
    kept = [torch.ones((rank + 1) * 4_000_000, device="cuda") for _ in range(KEPT)]
    note(rank, "peak")
    del kept
    torch.cuda.empty_cache()
    torch.distributed.barrier()
    note(rank, "end")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(20000 + os.getpid() % 20000,), nprocs=RANKS)
    sys.exit(0)
