"""What a step of a run does beside the arithmetic, counted instead of timed."""

from collections import Counter

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble
from training.cases import fitted, mlp, numbers

BATCH = 8
PARAMETERS = 4

# The learning rate and the share of the run done, and the loss of the step.
NOTED = Counter(fill_=2, select=1, copy_=1)
# The mean of losses that are there one by one, forward and backward.
MEAN = Counter(sum=1, div=1, full_like=1)
# Targets are cut by index_select, which takes half as long as an index.
CUT = Counter(index_select=1)

NORM = Counter(_foreach_norm=1, stack=1, linalg_vector_norm=1)
RADIUS = Counter(add=1, reciprocal=1, mul=1, _foreach_mul=1)
MOVE = Counter(empty_like=PARAMETERS, _foreach_copy_=2, _foreach_add_=1)


class Counting(TorchDispatchMode):
    """Counts torch's operations by name, handles on the same memory aside."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        namespace, _, name = operation.name().partition("::")
        if namespace == "aten" and name != "detach":
            self.counts[name.partition(".")[0]] += 1
        return operation(*arguments, **(keywords or {}))


def counted(function, *arguments):
    with Counting() as counting:
        function(*arguments)
    return counting.counts


def counted_step(train):
    """Return the operations of one step: what a run of two has more than one of one."""
    one, two = (counted(train, numbers(steps * BATCH)) for steps in (1, 2))
    return two - one


def run_of(method):
    def train(data):
        fitted(data, mlp, members=1, method=method, epochs=1, batch_size=BATCH)

    return train


def plain_loop(data):
    """One epoch as one writes it by hand, batches cut out of the tensors."""
    module = mlp()
    optimizer = torch.optim.SGD(
        module.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4
    )
    for index in torch.randperm(len(data)).split(BATCH):
        x, y = data.inputs[index], data.targets[index]
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()


def one_pass(data):
    module = mlp()
    losses = cross_entropy(module(data.inputs), data.targets)
    shares = torch.full_like(losses, 1 / len(data))
    torch.autograd.grad(losses, list(module.parameters()), shares)
    losses.detach().sum() / len(data)


def test_a_step_adds_little_to_that_of_a_plain_loop():
    added = counted_step(run_of(DeepEnsemble())) - counted_step(plain_loop)
    assert added <= NOTED + MEAN + CUT


def test_sam_adds_a_pass_and_a_handful_of_kernels():
    built = counted(mlp)
    added = counted_step(run_of(SAM())) - counted_step(run_of(DeepEnsemble()))
    passes = counted(one_pass, numbers(BATCH)) - built
    assert passes <= added
    assert added - passes <= NORM + RADIUS + MOVE
