"""An ensemble: members, their seeds, and what they say together."""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from tepui import metrics, models
from tepui.checks import logits_shape, one_of, require
from tepui.data.arrays import Inputs
from tepui.data.loading import inputs_to
from tepui.inference import chunks, device_of, evaluating, forward
from tepui.metrics.aggregate import Rule
from tepui.models.base import Model
from tepui.seeding import member_seeds, seeded
from tepui.storage import raw_bytes, read_tensors, write_tensors
from tepui.version import __version__

Score = Literal["bma", "pds", "entropy", "mutual_information", "variance"]
Factory = Callable[[], nn.Module]

FILE = "ensemble.safetensors"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Prediction:
    """What an ensemble says about some inputs.

    Attributes:
        logits: Outputs of every member, ``(members, samples, classes)``.
        rule: How members are joined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their labels.
    """

    logits: Tensor
    rule: Rule = "probability"

    @property
    def probs(self) -> Tensor:
        """Probabilities of the ensemble, ``(samples, classes)``."""
        return metrics.ensemble_probs(self.logits, self.rule)

    @property
    def labels(self) -> Tensor:
        """The class the ensemble chooses, ``(samples,)``."""
        return metrics.ensemble_predictions(self.logits, self.rule)

    @property
    def confidence(self) -> Tensor:
        """Probability of the chosen class, ``(samples,)``."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]

    def ood_score(self, score: Score = "pds") -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: ``"bma"`` (one minus the highest mean probability), ``"pds"``
                (predictive diversity score), ``"entropy"`` of the mean probability,
                ``"mutual_information"``, or ``"variance"`` of the probabilities.

        Returns:
            One score per sample.
        """
        one_of("score", score, get_args(Score))
        if score == "bma":
            return 1 - metrics.bma(self.logits)
        if score == "variance":
            return metrics.predictive_variance(self.logits)
        of_logits: Callable[[Tensor], Tensor] = getattr(metrics, score)
        return of_logits(self.logits)


class Ensemble(nn.Module):
    """Members that predict together.

    Args:
        modules: The members; each maps a batch of inputs to ``(samples, outputs)``.
        seed: One seed, or one per member: what their training draws derive from.

    Attributes:
        members: The members.
        seeds: One seed per member.

    Example:
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=13)
        >>> out = ensemble.predict(torch.zeros(5, 4))
        >>> out.logits.shape, out.probs.shape
        (torch.Size([2, 5, 3]), torch.Size([5, 3]))
    """

    def __init__(
        self, modules: Iterable[nn.Module], seed: int | Sequence[int] = 0
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(modules)
        require(len(self.members) > 0, "modules", "hold at least one member", 0)
        repeated = len({id(member) for member in self.members}) < len(self.members)
        require(
            not repeated,
            "modules",
            "be different objects (call the factory once per member)",
            f"{len(self.members)} members with one object repeated",
        )
        self.seeds = member_seeds(seed, len(self.members))

    @classmethod
    def build(
        cls,
        factory: Factory | Sequence[Factory],
        members: int | None = None,
        seed: int | Sequence[int] = 0,
    ) -> Self:
        """Build members from independent, reproducible initialisations.

        Args:
            factory: Returns a new module at every call; or one factory per member.
            members: How many members; as many as factories or seeds if not given.
            seed: One integer, or one per member. Member ``i`` depends on its own seed
                alone, so adding members changes no other.

        Returns:
            The ensemble, in train mode, on the CPU.

        Raises:
            ValueError: If the counts disagree, or a factory returns no new module.
        """
        require(
            not isinstance(factory, nn.Module),
            "factory",
            "be a callable that returns a new module, or one per member",
            f"a module of type {type(factory).__name__}",
        )
        count = _count(factory, members, seed)
        factories = [factory] * count if callable(factory) else list(factory)
        require(
            len(factories) == count, "factory", f"be one or {count}", len(factories)
        )
        modules = []
        for make, member_seed in zip(factories, member_seeds(seed, count), strict=True):
            with seeded(member_seed, "initialisation"):
                modules.append(make())
        for module in modules:
            require(
                isinstance(module, nn.Module),
                "factory",
                "return an nn.Module",
                type(module).__name__,
            )
        ensemble = cls(modules, seed)
        _report_identical(modules)
        return ensemble

    def __len__(self) -> int:
        return len(self.members)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return every member's outputs, ``(members, samples, outputs)``."""
        return torch.stack([forward(member, inputs) for member in self.members])

    def logits(self, inputs: Inputs, batch_size: int = 1024) -> Tensor:
        """Return every member's outputs in eval mode, without gradients.

        Args:
            inputs: A tensor, or a mapping of tensors, anywhere.
            batch_size: How many samples go through a member at once.

        Returns:
            Shape ``(members, samples, outputs)``, on the device of the inputs.
        """
        require(batch_size > 0, "batch_size", "be positive", batch_size)
        device = device_of(self)
        parts = []
        with evaluating(self), torch.no_grad():
            for chunk in chunks(inputs, batch_size):
                first = (
                    chunk if isinstance(chunk, Tensor) else next(iter(chunk.values()))
                )
                parts.append(self(inputs_to(chunk, device)).to(first.device))
        return torch.cat(parts, dim=1)

    def predict(
        self, inputs: Inputs, rule: Rule = "probability", batch_size: int = 1024
    ) -> Prediction:
        """Predict with all members.

        Args:
            inputs: A tensor, or a mapping of tensors.
            rule: How members are joined.
            batch_size: How many samples go through a member at once.

        Returns:
            Probabilities, labels, confidence and scores, from one forward pass.
        """
        one_of("rule", rule, get_args(Rule))
        logits = self.logits(inputs, batch_size)
        logits_shape(logits)
        return Prediction(logits, rule)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Save members and seeds as one safetensors file with a JSON header.

        Args:
            path: A folder; the file in it is ``ensemble.safetensors``.
            overwrite: Replace an ensemble that is there.

        Returns:
            The file.

        Raises:
            FileExistsError: If an ensemble is there and ``overwrite`` is false.
        """
        file = Path(path) / FILE
        if file.exists() and not overwrite:
            raise FileExistsError(
                f"{file} exists; choose another path or pass overwrite=True"
            )
        tensors = {
            f"{index}.{name}": tensor
            for index, member in enumerate(self.members)
            for name, tensor in tensor_state(member).items()
        }
        document = {
            "format": FORMAT,
            "tepui": __version__,
            "seeds": list(self.seeds),
            "members": [_description(member) for member in self.members],
        }
        write_tensors(file, tensors, document)
        return file


def load(
    path: str | Path, factory: Factory | Sequence[Factory] | None = None
) -> Ensemble:
    """Load an ensemble that :meth:`Ensemble.save` or a run wrote.

    Nothing in the file is executed: models of ``tepui.models`` are rebuilt from their
    names and arguments, all others by the factory.

    Args:
        path: The folder.
        factory: Returns an untrained member; needed only for models tepui does not
            know. One, or one per member.

    Returns:
        The ensemble, on the CPU, in eval mode.

    Raises:
        FileNotFoundError: If there is no ensemble.
        ValueError: If the file is foreign or damaged, or does not fit the factory.
    """
    tensors, document, file = _read(path)
    described = document["members"]
    if factory is None:
        with seeded("load"):
            modules = [_rebuild(item, file) for item in described]
        _take_dtypes(modules, tensors)
    else:
        factories = [factory] * len(described) if callable(factory) else list(factory)
        require(
            len(factories) == len(described),
            "factory",
            f"be one or {len(described)}",
            len(factories),
        )
        with seeded("load"):
            modules = [make() for make in factories]
    ensemble = Ensemble(modules, document["seeds"])
    _load_members(ensemble, tensors, file)
    return ensemble.eval()


def load_into(ensemble: Ensemble, path: str | Path) -> None:
    """Load saved weights into an ensemble of the same shape.

    Args:
        ensemble: Its members' weights are replaced.
        path: The folder.

    Raises:
        ValueError: If members differ in number, names or shapes.
    """
    tensors, document, file = _read(path)
    require(
        len(document["members"]) == len(ensemble),
        f"members in {file}",
        f"be as many as the ensemble's ({len(ensemble)})",
        len(document["members"]),
    )
    _load_members(ensemble, tensors, file)


def _read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any], Path]:
    file = Path(path) / FILE
    tensors, document = read_tensors(file)
    require(
        document.get("format") == FORMAT,
        f"format of {file}",
        f"be {FORMAT}",
        document.get("format"),
    )
    return tensors, document, file


def _load_members(ensemble: Ensemble, tensors: dict[str, Tensor], file: Path) -> None:
    for index, module in enumerate(ensemble.members):
        prefix = f"{index}."
        state = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        load_tensor_state(module, state, f"member {index} of {file}")


def tensor_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's state dict, which must hold tensors only.

    Args:
        module: Any module.

    Returns:
        Tensors by name.

    Raises:
        ValueError: If an entry is no tensor.
    """
    state: dict[str, Any] = module.state_dict()
    for name, value in state.items():
        require(
            isinstance(value, Tensor),
            f"state of {type(module).__name__}",
            "hold tensors only",
            f"{type(value).__name__} in {name!r}",
        )
    return state


def load_tensor_state(module: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module, naming what does not fit.

    Args:
        module: The module.
        state: Tensors by name.
        where: What they are, for the message.

    Raises:
        ValueError: If names or shapes differ.
    """
    own = tensor_state(module)
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    if missing or unexpected:
        raise ValueError(
            f"{where} must fit {type(module).__name__}, got missing {missing[:3]} "
            f"({len(missing)}) and unexpected {unexpected[:3]} ({len(unexpected)})"
        )
    for name, tensor in state.items():
        require(
            tensor.shape == own[name].shape,
            f"{name!r} in {where}",
            f"have shape {tuple(own[name].shape)}",
            tuple(tensor.shape),
        )
    module.load_state_dict(state)


def _count(
    factory: Factory | Sequence[Factory],
    members: int | None,
    seed: int | Sequence[int],
) -> int:
    if members is None:
        if not callable(factory):
            return len(factory)
        require(
            isinstance(seed, Sequence),
            "members",
            "be given unless factories or seeds are listed one per member",
            None,
        )
        return len(seed)  # type: ignore[arg-type]
    require(members > 0, "members", "be positive", members)
    return members


def _description(module: nn.Module) -> dict[str, Any]:
    kind = type(module)
    if isinstance(module, Model) and getattr(models, kind.__name__, None) is kind:
        return {"model": kind.__name__, "config": module.config}
    return {"model": f"{kind.__module__}.{kind.__qualname__}", "config": None}


def _rebuild(description: dict[str, Any], file: Path) -> nn.Module:
    name = description["model"]
    if description["config"] is None:
        raise ValueError(
            f"factory must be given: {file} holds members of type {name}, which is "
            "not one of tepui.models"
        )
    one_of(f"model in {file}", name, models.__all__)
    try:
        module: nn.Module = getattr(models, name)(**description["config"])
    except TypeError as error:
        raise ValueError(
            f"config in {file} must hold the arguments of {name}, but: {error}"
        ) from error
    return module


def _take_dtypes(modules: Sequence[nn.Module], tensors: dict[str, Tensor]) -> None:
    """Give rebuilt members the number types they were saved in."""
    for index, module in enumerate(modules):
        for name, own in (*module.named_parameters(), *module.named_buffers()):
            saved = tensors.get(f"{index}.{name}", own)
            if saved.is_floating_point():
                own.data = own.data.to(saved.dtype)


def _report_identical(modules: Sequence[nn.Module]) -> None:
    """Warn when members start from the same weights."""
    seen: dict[str, list[int]] = {}
    for index, module in enumerate(modules):
        digest = hashlib.sha256()
        for value in module.state_dict().values():
            if isinstance(value, Tensor):
                digest.update(raw_bytes(value).numpy().tobytes())
        seen.setdefault(digest.hexdigest(), []).append(index)
    alike = [group for group in seen.values() if len(group) > 1]
    if alike:
        warnings.warn(
            f"members {alike[0]} start from identical weights: only data order, "
            "augmentation and the method will tell them apart",
            stacklevel=3,
        )
