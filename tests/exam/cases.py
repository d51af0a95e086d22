"""Small data, networks and methods: three classes, no option at its default."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn

from exam.names import command, public

CLASSES = 3


def rows(samples=96, features=6, seed=0):
    """Return standard normal rows around three means and their labels."""
    stream = torch.Generator().manual_seed(seed)
    means = torch.tensor([[1.0, 0, 0], [0, 1.5, 0], [0, 0, -1.25]]).repeat(1, 2)
    labels = torch.randint(0, CLASSES, (samples,), generator=stream)
    noise = torch.randn(samples, features, generator=stream)
    return means[:, :features][labels] + 0.8 * noise, labels


def table(samples=96, seed=0):
    """Return a data set of rows."""
    return public("data.Arrays")(*rows(samples, seed=seed))


def images(samples=60, size=8, seed=0):
    """Return a data set of colored images in bytes, brighter from class to class."""
    stream = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    noise = torch.randint(0, 90, (samples, 3, size, size), generator=stream)
    bright = torch.tensor([30, 80, 140])[labels][:, None, None, None]
    normalize = public("data.Normalize")((0.4, 0.5, 0.6), (0.2, 0.3, 0.25))
    return public("data.Arrays")((noise + bright).to(torch.uint8), labels, normalize)


def network():
    """Return a small network for rows, with dropout and batch statistics."""
    return nn.Sequential(
        nn.Linear(6, 12),
        nn.BatchNorm1d(12),
        nn.Tanh(),
        nn.Dropout(0.15),
        nn.Linear(12, CLASSES),
    )


@dataclass(frozen=True)
class Outcome:
    """What a command printed, wrote to its error stream, and returned."""

    status: int
    out: str
    err: str


def run(capsys, *words):
    """Run the command ``tepui`` in this process and return its outcome."""
    capsys.readouterr()
    try:
        status = command()([*map(str, words)])
    except SystemExit as left:
        status = left.code
    said = capsys.readouterr()
    return Outcome(int(status or 0), said.out, said.err)


def smooth():
    """Return a small network in double precision, without noise and statistics."""
    layers = nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)
    return nn.Sequential(*layers).double()


def exact(samples=48, seed=0):
    """Return rows in double precision, for comparisons with a descent by hand."""
    inputs, labels = rows(samples, seed=seed)
    return public("data.Arrays")(inputs.double(), labels)


def copied(ensemble):
    """Return copies of the members' modules, as they are now."""
    return [deepcopy(member) for member in ensemble.members]


def flat(module):
    """Return a module's parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def slope(module, loss):
    """Return the gradient of ``loss(module)`` as one vector."""
    grads = torch.autograd.grad(loss(module), list(module.parameters()))
    return torch.cat([grad.flatten() for grad in grads])


def moved(module, step):
    """Return a copy of a module whose weights differ by a vector."""
    other = deepcopy(module)
    nn.utils.vector_to_parameters(flat(module) + step, other.parameters())
    return other


def uphill(module, loss, rho):
    """Return SAM's gradient: that at a distance rho along the gradient."""
    here = slope(module, loss)
    return slope(moved(module, rho * here / here.norm()), loss)


def descended(module, gradient, rates, momentum=0.0, decay=0.0):
    """Return all weights that SGD by hand passes, one step for each rate."""
    path, velocity = [flat(module)], 0.0
    for rate in rates:
        velocity = momentum * velocity + gradient(module) + decay * flat(module)
        module = moved(module, -rate * velocity)
        path.append(flat(module))
    return path


def whole(data, **options):
    """Return a function from a module to its mean loss on all of the data."""
    return lambda module: nn.functional.cross_entropy(
        module(data.inputs), data.targets, **options
    )


def fitted(method, data, epochs=3, members=3, model=smooth, **how):
    """Train in batches of all data, at a constant rate, without momentum."""
    ensemble = public("Ensemble").build(model, members=members, seed=7)
    before = copied(ensemble)
    how = {
        "optimizer": public("SGD")(lr=0.3, momentum=0, weight_decay=0),
        "schedule": public("Constant")(),
        "batch_size": len(data),
        **how,
    }
    run = public("fit")(
        ensemble, data, method=method, epochs=epochs, progress="none", **how
    )
    return before, run


def near(first, second, tolerance=1e-9):
    """Raise unless two tensors are the same up to rounding."""
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


def same_bits(first, second):
    """Return whether the members of two ensembles are equal to the bit."""
    pairs = zip(first.members, second.members, strict=True)
    return all(torch.equal(flat(a), flat(b)) for a, b in pairs)
