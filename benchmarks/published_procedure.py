"""The work of the published SharpBalance procedure, to take ratios against.

Written for this comparison from what the released code does, step by step: float32,
eager, channels first, one member at a time. A step looks every sample up in a Python
list, takes the gradient of the normal samples and lays it aside, climbs along that of
the others, takes theirs from there, and descends along the sum, each part weighed by
its share of the batch. Scoring forms the whole gradient of every sample, 16 at a time.
What comes out is correct, but only what it costs is of interest here.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

SCORED_AT_ONCE = 16


def published_mixed_step(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    num_train: int = 45_000,
    normal_share: float = 0.5,
    rho: float = 0.2,
    lr: float = 0.1,
) -> Callable[[], None]:
    """Return what updates a model on one batch, drawn from so many training samples."""
    draws = random.Random(0)
    normal = draws.sample(range(num_train), int(normal_share * num_train))
    index = torch.tensor([draws.randrange(num_train) for _ in labels])
    optimizer = torch.optim.SGD(
        model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, foreach=False
    )

    def backward(rows: list[int], weight: float) -> None:
        optimizer.zero_grad()
        outputs = model(images[rows])
        (weight * F.cross_entropy(outputs, labels[rows])).backward()

    def step() -> None:
        calm, sharp = divided(index, normal)
        aside: list[Tensor] = []
        if calm:
            backward(calm, len(calm) / len(labels))
            aside = [p.grad.clone() for p in model.parameters()]
        if sharp:
            backward(sharp, 1.0)
            before = climb(model, rho)
            backward(sharp, len(sharp) / len(labels))
            go_back(model, before)
        if calm and sharp:
            for parameter, gradient in zip(model.parameters(), aside, strict=True):
                parameter.grad = parameter.grad + gradient
        optimizer.step()

    return step


def divided(index: Tensor, normal: list[int]) -> tuple[list[int], list[int]]:
    """Return the rows of normal samples and of the others, found one by one."""
    calm: list[int] = []
    sharp: list[int] = []
    for row in range(len(index)):
        part = calm if index[row].item() in normal else sharp
        part.append(row)
    return calm, sharp


@torch.no_grad()
def climb(model: nn.Module, rho: float) -> list[Tensor]:
    """Move a model along its gradient, by a length; return its weights from before."""
    parameters = list(model.parameters())
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    before = [p.clone() for p in parameters]
    for parameter in parameters:
        parameter.add_(parameter.grad * (rho / (norm + 1e-12)))
    return before


@torch.no_grad()
def go_back(model: nn.Module, weights: list[Tensor]) -> None:
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.copy_(weight)


def published_scoring(
    model: nn.Module, chunk: int = SCORED_AT_ONCE
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what scores samples by the squared norms of their gradients."""
    model.eval()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    state = dict(model.named_buffers())

    def loss(weights: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(model, (weights, state), (image.unsqueeze(0),))
        return F.cross_entropy(outputs, label.unsqueeze(0))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def squared_norms(images: Tensor, labels: Tensor) -> Tensor:
        of_layers = gradients(weights, images, labels).values()
        whole = torch.cat([gradient.flatten(1) for gradient in of_layers], dim=1)
        return whole.square().sum(1)

    def score(images: Tensor, labels: Tensor) -> Tensor:
        parts = zip(images.split(chunk), labels.split(chunk), strict=True)
        return torch.cat([squared_norms(*part) for part in parts])

    return score
