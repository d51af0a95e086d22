"""Worst-case sharpness as one would write it first: the twin of tests and benchmark."""

import torch
import torch.nn.functional as F
from torch.func import functional_call

from tepui.sharpness.worst_case import checkpoints


def naive_worst_case(model, batches, rho, steps=20):
    """Adaptive l2 APGD on dictionaries of parameters, losses read at every step."""
    model.eval()
    base = {k: v.detach().clone() for k, v in model.named_parameters()}
    rises = []
    for x, y in batches:

        def loss_of(values, x=x, y=y):
            leaves = {k: v.clone().requires_grad_() for k, v in values.items()}
            loss = F.cross_entropy(functional_call(model, leaves, (x,)), y)
            grads = torch.autograd.grad(loss, list(leaves.values()))
            return loss.item(), dict(zip(leaves, grads, strict=True))

        def norm(values):
            return torch.stack([v.square().sum() for v in values.values()]).sum().sqrt()

        u = {k: torch.zeros_like(v) for k, v in base.items()}
        value, grads = loss_of(base)
        start, best = value, (value, u, grads)
        step, last, gained, best_then, halved = 2 * rho, -1, 0, value, False
        for i in range(steps):
            way = {k: base[k].abs() * grads[k] for k in base}
            length = norm(way) + 1e-12
            goal = {k: u[k] + step * way[k] / length for k in base}
            shrink = (rho / (norm(goal) + 1e-12)).clamp(max=1.0)
            goal = {k: shrink * v for k, v in goal.items()}
            old = {k: v.clone() for k, v in u.items()}
            u = {k: goal[k] if i == 0 else 0.75 * goal[k] + 0.25 * old[k] for k in base}
            before = value
            value, grads = loss_of({k: base[k] + base[k].abs() * u[k] for k in base})
            gained += value > before
            if value > best[0]:
                best = (value, {k: v.clone() for k, v in u.items()}, grads)
            if i in checkpoints(steps):
                few = gained < 0.75 * (i - last)
                halved = few or (not halved and best[0] <= best_then)
                if halved:
                    step /= 2
                    value, u, grads = best
                gained, last, best_then = 0, i, best[0]
        rises.append(best[0] - start)
    return torch.tensor(rises, dtype=torch.float64)
