# SPDX-License-Identifier: Apache-2.0
"""PyTorch under its own profiler: how many kernels and copies it saw is printed."""
import torch
from torch.profiler import ProfilerActivity, profile

import journal

STEPS, WIDTH = 5, 256


def step(weight, data):
    return (torch.tanh(data.cuda() @ weight) ** 2).mean()


def main():
    torch.manual_seed(0)
    weight = torch.rand(WIDTH, WIDTH, device="cuda")
    data = torch.rand(8, WIDTH)
    step(weight, data).item()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            loss = step(weight, data)
        torch.cuda.synchronize()
    print("loss", journal.bits(loss.item()))
    on_device = [event for event in seen.events()
                 if event.device_type == torch.autograd.DeviceType.CUDA]
    copies = sum("Memcpy" in event.name for event in on_device)
    print("copies seen", copies, "kernels seen", "yes" if len(on_device) > copies else "no")


main()
