"""What one step of a method may do, and the short runs that methods are tried on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tepui.core.members import for_member
from tepui.core.seeding import generator, seeded
from tepui.core.storage import same_bits
from tepui.data import Arrays, Batch
from tepui.ensembles import Ensemble
from tepui.losses import cross_entropy
from tepui.methods import CoupledBatch, CoupledMethod, MemberMethod, Method
from tepui.testing.expecting import Subject
from tepui.training import SGD, Run, fit
from tepui.training.member import TrainingMember
from tepui.training.passes import MemberPasses
from tepui.training.runner import Plan, Runner

READING = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2"}
# On the CPU these read memory as it lies, without an operation.
HANDING_OVER = {"tolist", "numpy", "__array__", "__dlpack__", "cpu"}


@seeded("testing", "steps")
def check_start(checked: Subject, method: Method) -> None:
    """Check that state begins as tensors of its own."""
    member = _member(network())
    state = for_member(method, 0, 1).start(member)
    rule = "return a dict of tensors from start"
    checked.must(rule, isinstance(state, dict), f"a {type(state).__name__}")
    for key, tensor in state.items():
        rule = f"return tensors by name from start, also under {key!r}"
        fits = isinstance(key, str) and isinstance(tensor, Tensor)
        checked.must(rule, fits, type(tensor).__name__)
        shared = any(_overlaps(tensor, other) for other in member.parameters)
        rule = f"start {key!r} as a copy that shares no memory with weights (clone)"
        checked.must(rule, not shared, "a view of them")


@seeded("testing", "steps")
def check_gradient(checked: Subject, method: MemberMethod, phase: str) -> None:
    """Check what a gradient is, and that taking it leaves no trace."""
    method = for_member(method, 0, 1)
    for dtype in (torch.float32, torch.float64):
        member = _started(method, network().to(dtype), phase)
        batch = _batch(dtype)
        before = [p.detach().clone() for p in member.parameters]
        member.noise_seed = 0
        expected = member.gradient(batch).loss
        with checked.must_manage("return a Gradient"):
            loss, values = method.gradient(member, batch)
        rule = "leave weights as they were (use member.moved)"
        same = all(map(torch.equal, member.parameters, before))
        checked.must(rule, same, "others after gradient")
        clean = all(p.grad is None and p.requires_grad for p in member.parameters)
        rule = "return gradients, not store them in .grad or freeze parameters"
        checked.must(rule, clean, "a changed .grad or requires_grad")
        rule = "return the loss at the member's weights, without what it adds to it"
        checked.must_agree(rule, [loss], [expected], rtol=1e-4)
        detached = not any(tensor.requires_grad for tensor in (loss, *values))
        checked.must(
            "return detached tensors", detached, "ones that require a gradient"
        )
        kinds = [(value.shape, value.dtype) for value in values]
        wanted = [(p.shape, p.dtype) for p in member.parameters]
        checked.must("return one gradient per parameter", kinds == wanted, kinds)


@seeded("testing", "steps")
def check_masks(checked: Subject, method: MemberMethod, phase: str) -> None:
    """Check that all passes of a step see the same dropout masks."""
    features = SIZE * SIZE
    masks: list[Tensor] = []

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(features, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            masks.append(torch.rand(features))
            logits: Tensor = self.layer(x.flatten(1) * masks[-1])
            return logits

    method = for_member(method, 0, 1)
    member = _started(method, Masked(), phase)
    member.noise_seed = 1
    method.gradient(member, _batch())
    same = all(torch.equal(mask, masks[0]) for mask in masks)
    rule = (
        "see the same dropout masks in all passes of a step (use member.gradient, "
        "losses or outputs)"
    )
    checked.must(rule, same, f"others in {len(masks)} passes")


@seeded("testing", "steps")
def check_reading(checked: Subject, method: Method, phase: str) -> None:
    """Check that a step reads no value of a tensor on the host."""
    method = for_member(method, 0, 1)
    member, batch = _started(method, network(), phase), _batch()
    if isinstance(method, MemberMethod):
        with _refusing_to_read(checked, "gradient"):
            method.gradient(member, batch)
    elif isinstance(method, CoupledMethod):
        joint, _ = _coupled_batch(method)
        with _refusing_to_read(checked, "loss"):
            method.loss(joint)
    with _refusing_to_read(checked, "after_update"):
        method.after_update(member)


@seeded("testing", "steps")
def check_places(checked: Subject, method: Method, phase: str) -> None:
    """Check that weights, buffers and state stay where they lie in memory."""
    method = for_member(method, 0, 1)
    member = _started(method, network(), phase)
    tensors = [*member.parameters, *member.buffers, *member.state.values()]
    before = [tensor.detach() for tensor in tensors]  # keeps the memory from reuse
    if isinstance(method, MemberMethod):
        method.gradient(member, _batch())
    method.after_update(member)
    pairs = zip(tensors, before, strict=True)
    moved = sum(now.data_ptr() != then.data_ptr() for now, then in pairs)
    rule = "change weights and state in place, where a captured step finds them"
    seen = f"{moved} of {len(tensors)} tensors elsewhere after a step"
    checked.must(rule, moved == 0, seen)


def check_coupling(checked: Subject, method: CoupledMethod) -> None:
    """Check turns, and that all active members descend the joint loss."""
    for members in (3, 5):
        turns = []
        for _ in range(2):
            with checked.must_keep_generators():
                turns.append(method.turn(members, 0.5, generator("testing", "turn")))
        rule = "draw a turn from its generator alone"
        checked.must(rule, turns[0] == turns[1], turns)
        who = [*turns[0].active, *turns[0].observed]
        once = len(who) == len(set(who)) and set(who) <= set(range(members))
        once = once and len(turns[0].active) > 0
        rule = f"let some of {members} members take part, each once"
        checked.must(rule, once, turns[0])
    batch, learning = _coupled_batch(method)
    total = method.loss(batch)
    scalar = isinstance(total, Tensor) and total.shape == ()
    checked.must("return a scalar loss", scalar, total)
    (gradient,) = torch.autograd.grad(total, learning)
    moved = (gradient.abs().amax((1, 2)) > 0).tolist()
    checked.must("have a loss that every active member descends", all(moved), moved)


def _coupled_batch(method: CoupledMethod) -> tuple[CoupledBatch, Tensor]:
    """Return what members bring to a late turn, and the outputs of active ones."""
    turn = method.turn(3, 0.99, generator("testing", "turn"))
    active, observed = len(turn.active), len(turn.observed)
    stream, samples = generator("testing", "outputs"), 8
    learning = torch.randn(active, samples, CLASSES, generator=stream)
    learning.requires_grad_()
    others = torch.randn(observed, samples, CLASSES, generator=stream)
    outputs = torch.cat([learning, others])
    targets = torch.arange(samples) % CLASSES
    losses = torch.stack([cross_entropy(output, targets) for output in learning])
    beside = outputs if method.needs_unlabeled else None
    return CoupledBatch(outputs, losses, targets, beside), learning


def _batch(dtype: torch.dtype = torch.float32) -> Batch:
    data = images(dtype=dtype)
    return Batch(data.inputs, data.targets, torch.arange(SAMPLES))


def _member(module: nn.Module) -> MemberPasses:
    rate = torch.tensor(0.1)
    return MemberPasses(module, loss=cross_entropy, learning_rate=rate, samples=SAMPLES)


def _started(method: Method, module: nn.Module, phase: str) -> MemberPasses:
    member = _member(module)
    member.phase = phase
    member.state = method.start(member)
    return member


def _overlaps(first: Tensor, second: Tensor) -> bool:
    return (
        first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        and first.numel() > 0
    )


@contextmanager
def _refusing_to_read(checked: Subject, where: str) -> Iterator[None]:
    """Refuse in the block what waits for a value on the host."""
    rule = (
        f"read no value of a tensor in {where} (.item(), .tolist(), float(), if), "
        "since a graph runs it once"
    )
    with _HandingOver(checked, rule), _Reading(checked, rule):
        yield


class _Reading(TorchDispatchMode):
    """Refuses operations whose result the host must know."""

    def __init__(self, checked: Subject, rule: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._checked, self._rule = checked, rule

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Let an operation pass, or raise."""
        operation = func.overloadpacket.__name__
        self._checked.must(self._rule, operation not in READING, f"aten.{operation}")
        return func(*args, **(kwargs or {}))


class _HandingOver(TorchFunctionMode):
    """Refuses methods of a tensor that hand its values to the host."""

    def __init__(self, checked: Subject, rule: str) -> None:
        super().__init__()
        self._checked, self._rule = checked, rule

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Let a function pass, or raise."""
        name = getattr(func, "__name__", "")
        self._checked.must(self._rule, name not in HANDING_OVER, f"Tensor.{name}")
        return func(*args, **(kwargs or {}))


SAMPLES, SIZE, CLASSES, BATCH = 26, 4, 3, 7
OPTIMIZER = SGD(lr=0.05)
LONGEST = 20  # epochs of the longest run


def images(seed: int = 0, dtype: torch.dtype = torch.float32) -> Arrays:
    """Return images that can be told apart by their brightness."""
    stream = generator(seed, "testing", "images")
    labels = torch.arange(SAMPLES) % CLASSES
    noise = torch.rand(SAMPLES, 1, SIZE, SIZE, generator=stream, dtype=dtype)
    return Arrays((noise + labels[:, None, None, None]) / CLASSES, labels)


def network() -> nn.Sequential:
    """Return a network with BatchNorm and dropout, where every pass leaves a trace."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIZE * SIZE, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(8, CLASSES),
    )


def plain_network() -> nn.Sequential:
    """Return a network without BatchNorm and dropout."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE * SIZE, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def phases(checked: Subject, method: Method) -> list[str]:
    """Return the phases of the longest run, in order."""
    names: list[str] = []
    for epoch in range(LONGEST):
        with checked.must_manage(f"name the phase of every of {LONGEST} epochs"):
            name = method.phase(epoch, LONGEST)
        checked.must("name phases by strings", isinstance(name, str), repr(name))
        names.append(name)
    return [*dict.fromkeys(names)]


def fitted(
    method: Method,
    factory: Callable[[], nn.Module] = network,
    *,
    members: int = 3,
    seed: int | list[int] = 3,
    dtype: torch.dtype = torch.float32,
    **how: Any,
) -> Run:
    """Train a fresh ensemble and return the run."""
    ensemble = Ensemble.build(lambda: factory().to(dtype), members=members, seed=seed)
    if method.needs_unlabeled:
        how["unlabeled"] = images(1, dtype)
    settings = {
        "epochs": members if method.successive else 2,
        "batch_size": BATCH,
        "optimizer": OPTIMIZER,
        "device": "cpu",
        "progress": "none",
        **how,
    }
    return fit(ensemble, images(dtype=dtype), method=method, **settings)


def driven(
    method: Method,
    make_runner: Callable[[Plan, Sequence[TrainingMember]], Runner],
    factory: Callable[[], nn.Module] = network,
) -> Run:
    """Train as :func:`fitted` does, for longer and by a runner of choice."""

    def runner_of(name: str, plan: Plan, members: Sequence[TrainingMember]) -> Runner:
        return make_runner(plan, members)

    with patch("tepui.training.train.runner_of", runner_of):
        return fitted(method, factory, epochs=4)


def expect_same_runs(
    checked: Subject, rule: str, first: Run, second: Run, *, signed_zeros: bool = True
) -> None:
    """Raise unless two runs ended with the same bits and had the same losses."""
    one, other = (
        {
            name: t if signed_zeros else t + 0
            for name, t in run.ensemble.state_dict().items()
        }
        for run in (first, second)
    )
    changed = [key for key in one if not same_bits({key: one[key]}, {key: other[key]})]
    checked.must(rule, not changed, f"other bits in {changed}")
    losses = [
        [(record.loss, record.learning_rate) for record in run.history]
        for run in (first, second)
    ]
    checked.must(rule, losses[0] == losses[1], "other losses")
