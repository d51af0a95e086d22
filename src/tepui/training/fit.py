"""Training an ensemble: one function that takes keywords."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.arrays import to_tensor
from tepui.data.augment import Augmentation, PerMember
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import CrossEntropy, Loss
from tepui.methods.base import Method
from tepui.modules.pruning import Prune
from tepui.optim import Perturbation
from tepui.training.callbacks import Told
from tepui.training.early_stopping import EarlyStopping
from tepui.training.exchange import Exchange
from tepui.training.numerics import CPUKernels, Precision
from tepui.training.optimizer import SGD, Optimizer
from tepui.training.progress import Style, remark
from tepui.training.ranks import exchange_here
from tepui.training.run import Run, train
from tepui.training.schedule import Cosine, Schedule
from tepui.training.spec import ExecutionSpec, Keep, RunnerName, TrainingSpec

PLAIN_LOSS, PLAIN_SGD, COSINE = CrossEntropy(), SGD(), Cosine()
R = TypeVar("R")


def fit(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    method: Method,
    epochs: int,
    batch_size: int = 64,
    loss: Loss = PLAIN_LOSS,
    optimizer: Optimizer = PLAIN_SGD,
    schedule: Schedule | Callable[[float], float] = COSINE,
    augment: Sequence[Augmentation] | Sequence[Sequence[Augmentation]] | PerMember = (),
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    sample_weights: Tensor | Sequence[float] | None = None,
    keep: Keep = "last",
    early_stopping: EarlyStopping | None = None,
    accumulate: int = 1,
    clip_norm: float | None = None,
    prune: Prune | None = None,
    average: float | None = None,
    ema: float | None = None,
    part_at: int | None = None,
    perturbation: Perturbation = "global",
    device: str | torch.device | None = None,
    precision: Precision = "auto",
    deterministic: bool = False,
    cpu_kernels: CPUKernels | None = None,
    runner: RunnerName = "auto",
    compile: bool | None = None,
    workers: int = 0,
    offload: bool = False,
    data_parallel: int = 1,
    callbacks: Sequence[Told] = (),
    out: str | Path | None = None,
    resume: bool = False,
    branch_from: str | Path | None = None,
    checkpoint_every: int = 1,
    stop_after: int | None = None,
    progress: Style = "auto",
    exchange: Exchange | None = None,
) -> Run:
    """Train an ensemble in place.

    Args:
        ensemble: What to train; its members move to the device.
        dataset: A map-style data set of ``(x, y)``; ``x`` may be a dict of tensors. A
            data set held in tensors goes to the device once.
        method: How to train, such as ``DeepEnsemble()`` or ``SAM(rho=0.1)``.
        epochs: Length of the run.
        batch_size: Samples per step and member.
        loss: Returns one loss per sample.
        optimizer: ``SGD(...)``, ``AdamW(...)``, or any callable from parameters to a
            torch optimizer. SGD with learning rate 0.1 by default.
        schedule: Learning rate over time: ``Cosine(...)``, ``MultiStep(...)``,
            ``Constant(...)``, or a function from the share of the run that is done to
            a factor on the learning rate.
        augment: Random changes of batches, in order; or one list of them for each
            member, as ``PerMember(...)`` has them. The last step may be ``Mixup(...)``
            or ``CutMix(...)``, which mix samples of a batch, and rows of a table too.
        validation: A data set, or the share of ``dataset`` to hold out for it.
        unlabeled: Data whose targets are not read, for methods that make members
            disagree on them (``A2D``, ``DivDis``). Only labeled samples of the same
            kind can tell whether that helps there, and with which weight.
        sample_weights: A factor on the training loss of every sample of ``dataset``.
            Factors with a mean of 1 leave the learning rate its meaning.
        keep: ``"last"`` weights, or each member's ``"best"`` by validation loss.
        early_stopping: ``EarlyStopping(patience=5)`` ends the run once validation has
            brought no gain for so many epochs.
        accumulate: Split each batch into this many parts to save memory, of two samples
            at least.
        clip_norm: Bound on the norm of the gradient; by default 1 for ``GaussianNLL``,
            none for other losses.
        prune: ``Prune(sparsity=0.9)`` removes the smallest weights of every member.
        average: Share of the run, at its end, over which each member's weights are
            averaged; the mean is what is validated, kept and predicted with. With
            ``DeepEnsemble()`` and 0.25 this is an ensemble of averages (EoA).
        ema: Decay, such as 0.999, of a moving average of each member's weights over the
            whole run, which takes their place as ``average`` does.
        part_at: Until this epoch all members are one network, trained as the first one.
            Then each goes on with its own draws. With ``M`` members the run costs
            ``part_at + M * (epochs - part_at)`` epochs of one.
        perturbation: Sharpness-aware methods move the weights along the ``"global"``
            gradient of a batch, or each rank that shares it (``data_parallel``) along
            that of its ``"shard"`` (m-SAM).
        device: Where to train; a GPU if there is one.
        precision: ``"float32"``, ``"tf32"``, ``"bfloat16"``; ``"auto"`` is bfloat16
            on a GPU and float32 elsewhere.
        deterministic: Choose only algorithms that repeat to the bit.
        cpu_kernels: Whose convolutions and matrix products a CPU uses: those of
            ``"onednn"``, or torch's own (``"native"``), which round differently and are
            faster on some ARM processors; None as torch is set.
        runner: ``"graph"`` replays captured steps on a GPU, all members side by side;
            ``"eager"`` runs members in turn; ``"auto"`` takes graphs where it can.
        compile: Compile the members' forward passes; None does so on a GPU when the
            run is long enough to repay it.
        workers: Processes that load a data set not held in tensors.
        offload: Keep only one member at a time on the device, the others in host
            memory; slower, to the same sets and weights.
        data_parallel: Ranks that share every batch of a member, under torchrun.
        callbacks: Told how the run goes (:class:`tepui.Callback`), or functions called
            with the record of every epoch, of which True ends the run; under torchrun
            those of rank 0.
        out: A run folder for configuration, metrics, checkpoints and the ensemble.
        resume: Continue the run in ``out``, to the same bits; start it if new.
        branch_from: The folder of a run that began like this one, with a method that
            trains as this one does at first (:meth:`tepui.methods.Method.prefix`), and
            pruned as this one, or not at all: go on from its last checkpoint, to the
            bits of a run that began here.
        checkpoint_every: Epochs between checkpoints.
        stop_after: Leave after this many epochs of the run, with a checkpoint from
            which it can be resumed or branched.
        progress: ``"bar"``, ``"lines"``, ``"none"``; ``"auto"`` fits the terminal.
        exchange: Which members this process trains, and how those in other processes
            are reached. Under torchrun members are dealt to its ranks by default;
            ``LocalExchange()`` trains all of them in every process.

    Returns:
        The run: trained ensemble, history and folder; under torchrun every rank gets
            all of it.

    Raises:
        ValueError: If an argument breaks its rule.
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        TrainingDiverged: If a loss becomes infinite or NaN.
        RankLost: If another process of the run is gone.

    Example:
        >>> import tepui
        >>> from tepui.methods import SAM
        >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.randint(3, (64,)))
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> run = fit(ensemble, data, method=SAM(), epochs=2, progress="none")
        >>> len(run.history)
        2
    """
    given = {**locals()}
    several = isinstance(augment, Iterable | PerMember)
    require(several, "augment", "be a sequence", augment)
    execution, spec = _taken(ExecutionSpec, given), _taken(TrainingSpec, given)
    apart = ("dataset", "sample_weights")  # whose kinds are looked at later
    check_types(fit, {n: value for n, value in given.items() if n not in apart})
    if sample_weights is not None:
        given["sample_weights"] = to_tensor("sample_weights", sample_weights)
    text = method.remark(len(ensemble))
    complete = unlabeled is not None or not method.needs_unlabeled
    if text is not None and complete:
        writer = (exchange_here(data_parallel) if exchange is None else exchange).writer
        remark(progress if writer else "none", f"{type(method).__name__}: {text}")
    return train(**given, execution=execution, spec=spec)


def _taken(kind: type[R], given: dict[str, Any]) -> R:
    """Return a specification of the arguments that are its fields, taken from all."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: given.pop(name) for name in names})
