# SPDX-License-Identifier: Apache-2.0
"""PyTorch: CUDA graph capture and replay, pinned copies, a loader with pinned batches.

What is printed are sums to the last bit.  The independent counts are PyTorch's
own, of its device allocator and of its pinned one, and the program's own of
the pinned copies.
"""
import torch

import journal

WIDTH, REPLAYS, BATCHES = 512, 30, 24


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return BATCHES * 32

    def __getitem__(self, index):
        return torch.full((WIDTH,), float(index)).sin()


def step(model, optimizer, data):
    optimizer.zero_grad(set_to_none=False)
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def warm_up(model, optimizer, data):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(model, optimizer, data)
    torch.cuda.current_stream().wait_stream(stream)


def replay_graph():
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
                                torch.nn.Linear(WIDTH, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.ones(64, WIDTH, device="cuda")
    warm_up(model, optimizer, data)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimizer, data)
    for i in range(REPLAYS):
        data.fill_(i / REPLAYS)
        graph.replay()
        print("replay", i, journal.bits(loss.item()))


def load_pinned():
    """Two copies a batch, both to and from pinned memory, on a stream of their own."""
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=32, pin_memory=True)
    side = torch.cuda.Stream()
    back = torch.empty(32, WIDTH).pin_memory()
    count = size = 0
    for batch in loader:
        assert batch.is_pinned()
        with torch.cuda.stream(side):
            there = batch.cuda(non_blocking=True)
            back.copy_(there * 2, non_blocking=True)
        side.synchronize()
        print("batch", count, journal.bits(back.double().sum()))
        count += 1
        size += batch.numel() * batch.element_size()
    for kind, place in (("H2D", "source"), ("D2H", "target")):
        journal.note(check="transfer", kind=kind, place=place + " pinned", count=count, bytes=size,
                     at_least=4 * 32 * WIDTH, source="own journal")


def note_allocators():
    stats = torch.cuda.memory_stats()
    journal.note(check="allocation", kind="device", count=stats["num_device_alloc"],
                 caller="libcudart.so", source="torch.cuda.memory_stats num_device_alloc")
    journal.note_live("device", stats["reserved_bytes.all.current"],
                      count=stats["segment.all.current"],
                      caller="libcudart.so", source="torch.cuda.memory_stats reserved_bytes")
    host = torch.cuda.host_memory_stats()
    journal.note(check="allocation", kind="pinned", count=host["num_host_alloc"],
                 caller="libcudart.so", source="torch.cuda.host_memory_stats num_host_alloc")
    journal.note_live("pinned", host["allocated_bytes.current"], caller="libcudart.so",
                      source="torch.cuda.host_memory_stats allocated_bytes")


torch.manual_seed(0)
replay_graph()
load_pinned()
torch.cuda.synchronize()
note_allocators()
