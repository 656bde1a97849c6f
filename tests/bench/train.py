# SPDX-License-Identifier: Apache-2.0
"""An example to be recorded: 500 steps of a small PyTorch training loop."""
import torch

STEPS, BATCH, WIDTH, LAYERS = 500, 256, 1024, 8

torch.manual_seed(0)
layers = []
for _ in range(LAYERS):
    layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

for step in range(STEPS):
    data = torch.randn(BATCH, WIDTH)
    target = data.roll(1, 1)
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(data.cuda()), target.cuda())
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3} loss {loss.item():.4f}")
