# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training loop; prints every loss to its last bit.

The independent count is PyTorch's own: torch.cuda.memory_stats knows how many
segments its allocator took from the driver, and how many bytes they hold.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import journal

STEPS = int(os.environ.get("STEPS", "500"))
BATCH, WIDTH, LAYERS = 256, 1024, 8


def build():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).cuda()
    return model, torch.optim.Adam(model.parameters(), lr=1e-4)


def train(model, optimizer):
    """Ordinary memory up, one loss down, each step."""
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        data = torch.randn(BATCH, WIDTH, generator=generator)
        target = data.roll(1, 1)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(data.cuda()), target.cuda())
        loss.backward()
        optimizer.step()
        print(step, journal.bits(loss.item()))


def note_allocator():
    """PyTorch calls the driver through libcudart.so; cuBLAS and others hold copies of their own."""
    stats = torch.cuda.memory_stats()
    journal.note(check="allocation", kind="device", count=stats["num_device_alloc"],
                 caller="libcudart.so", source="torch.cuda.memory_stats num_device_alloc")
    journal.note_live("device", stats["reserved_bytes.all.current"],
                      count=stats["segment.all.current"],
                      caller="libcudart.so", source="torch.cuda.memory_stats reserved_bytes")


train(*build())
torch.cuda.synchronize()
note_allocator()
sys.exit(int(os.environ.get("STATUS", "0")))
