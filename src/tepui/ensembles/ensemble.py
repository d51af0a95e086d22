"""An ensemble: members, their seeds, and their joint predictions."""

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Self, get_args

import torch
from torch import Tensor, nn

from tepui.core.checks import logits_shape, one_of, require
from tepui.core.seeding import SEED, member_seeds, seeded
from tepui.core.storage import read_tensors, reading, write_tensors
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.data.arrays import Inputs
from tepui.data.loading import inputs_to
from tepui.ensembles.building import (
    Factory,
    built_members,
    factories_for,
    warn_of_identical,
)
from tepui.ensembles.prediction import Prediction
from tepui.metrics import Rule
from tepui.models.split import Frozen, OnFeatures, frozen
from tepui.modules.running import chunks, device_of, evaluating, forward, refusal_named
from tepui.modules.state import (
    description,
    load_tensor_state,
    rebuilt,
    take_dtypes,
    tensor_state,
)

States = dict[str, dict[str, Tensor]]

RUN = "run.json"
FILE = "ensemble.safetensors"
KIND = "ensemble"
EXTRACTOR = "extractor"


class Ensemble(nn.Module):
    """Members that predict together.

    Args:
        modules: The members; each maps a batch of inputs to ``(samples, outputs)``.
        seed: One seed, or one per member: what their training draws derive from.
        extractor: If given, the modules are heads that share it; see
            :meth:`on_features`.

    Attributes:
        members: The members; each takes raw inputs.
        seeds: One seed per member.
        extractor: The frozen part that all members share, if there is one.

    Example:
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=13)
        >>> out = ensemble.predict(torch.zeros(5, 4))
        >>> out.logits.shape, out.probs.shape
        (torch.Size([2, 5, 3]), torch.Size([5, 3]))
    """

    extractor: Frozen | None

    def __init__(
        self,
        modules: Iterable[nn.Module],
        seed: int | Sequence[int] = SEED,
        extractor: nn.Module | None = None,
    ) -> None:
        check_types(Ensemble.__init__, locals())
        super().__init__()
        self.extractor = None if extractor is None else frozen(extractor)
        members = list(modules)
        alike = all(isinstance(member, nn.Module) for member in members)
        kinds = [type(member).__name__ for member in members]
        require(alike, "modules", "hold modules", kinds)
        self.members = nn.ModuleList(members)
        require(len(self.members) > 0, "modules", "hold at least one member", 0)
        different = len({id(member) for member in self.members}) == len(self.members)
        rule = "be different objects (call the factory once per member)"
        count = f"{len(self.members)} members with one object repeated"
        require(different, "modules", rule, count)
        self.seeds = member_seeds(seed, len(self.members))
        if self.extractor is not None:
            on_it = [OnFeatures(self.extractor, head) for head in self.members]
            self.members = nn.ModuleList(on_it)

    @classmethod
    def build(
        cls,
        factory: Factory | Sequence[Factory],
        members: int | None = None,
        seed: int | Sequence[int] = SEED,
    ) -> Self:
        """Build members from independent, reproducible initializations.

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
        check_types(Ensemble.build, locals())
        modules = built_members(factory, members, seed)
        ensemble = cls(modules, seed)
        warn_of_identical(modules)
        return ensemble

    @classmethod
    def on_features(
        cls,
        extractor: nn.Module,
        head_factory: Factory | Sequence[Factory],
        members: int | None = None,
        seed: int | Sequence[int] = SEED,
    ) -> Self:
        """Build heads that share one frozen extractor.

        Train :attr:`heads` on :func:`tepui.cached_features` of the extractor, which
        runs it once per sample; the ensemble itself takes raw inputs, in ``fit`` too,
        and runs the extractor once per batch for all heads.

        Args:
            extractor: Any module that returns a tensor of features. It is frozen in
                place: no gradients, always in eval mode.
            head_factory: Returns a new head at every call; or one factory per member.
            members: How many members; as many as factories or seeds if not given.
            seed: As for :meth:`build`.

        Returns:
            The ensemble; heads in train mode, on the CPU, the extractor where it lies.

        Raises:
            ValueError: If the extractor has BatchNorm in train mode, the counts
                disagree, or a factory returns no new module.

        Example:
            >>> body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
            >>> ensemble = Ensemble.on_features(body, lambda: nn.Linear(8, 3), 5)
            >>> ensemble.logits(torch.zeros(2, 4)).shape
            torch.Size([5, 2, 3])
            >>> sum(p.numel() for p in ensemble.parameters() if p.requires_grad)
            135
        """
        check_types(Ensemble.on_features, locals())
        heads = built_members(head_factory, members, seed)
        ensemble = cls(heads, seed, extractor)
        warn_of_identical(heads)
        return ensemble

    @property
    def heads(self) -> "Ensemble":
        """The heads as an ensemble that takes features; without extractor, itself.

        Both hold the same modules: training the heads trains this ensemble.
        """
        if self.extractor is None:
            return self
        return Ensemble(self._heads(), self.seeds)

    def __len__(self) -> int:
        return len(self.members)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return every member's outputs, ``(members, samples, outputs)``."""
        if self.extractor is None:
            return torch.stack([forward(member, inputs) for member in self.members])
        heads = self._heads()
        places = device_of(self.extractor), device_of(heads[0])
        rule = "hold extractor and heads in one place (.to(device) moves both)"
        require(places[0] == places[1], "ensemble", rule, places)
        features = forward(self.extractor, inputs)
        return torch.stack([forward(head, features) for head in heads])

    def _heads(self) -> list[nn.Module]:
        return [member.get_submodule("head") for member in self.members]

    def logits(self, inputs: Inputs, batch_size: int = 1024) -> Tensor:
        """Return every member's outputs in eval mode, without gradients.

        Args:
            inputs: A tensor, or a mapping of tensors, anywhere.
            batch_size: How many samples go through a member at once.

        Returns:
            Shape ``(members, samples, outputs)``, on the device of the inputs.
        """
        check_types(Ensemble.logits, locals())
        require(batch_size > 0, "batch_size", "be positive", batch_size)
        tensors = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
        require(bool(tensors), "inputs", "hold at least one tensor", inputs)
        for tensor in tensors:
            rule = "be tensors with samples along the first axis"
            fits = isinstance(tensor, Tensor) and tensor.ndim > 0
            require(fits, "inputs", rule, getattr(tensor, "shape", type(tensor)))
        device = device_of(self)
        parts = []
        with evaluating(self), torch.no_grad():
            for chunk in chunks(inputs, batch_size):
                first = (
                    chunk if isinstance(chunk, Tensor) else next(iter(chunk.values()))
                )
                with refusal_named(chunk):
                    outputs = self(inputs_to(chunk, device))
                parts.append(outputs.to(first.device))
        return torch.cat(parts, dim=1)

    def predict(
        self, inputs: Inputs, *, rule: Rule = "probability", batch_size: int = 1024
    ) -> Prediction:
        """Predict with all members.

        Args:
            inputs: A tensor, or a mapping of tensors.
            rule: How members are combined.
            batch_size: How many samples go through a member at once.

        Returns:
            Probabilities, labels, confidence and scores, from one forward pass.
        """
        check_types(Ensemble.predict, locals())
        one_of("rule", rule, get_args(Rule))
        logits = self.logits(inputs, batch_size)
        logits_shape(logits)
        return Prediction(logits, rule=rule)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Save members and seeds as one safetensors file with a JSON header.

        An extractor that members share is stored once.

        Args:
            path: A folder; the file in it is ``ensemble.safetensors``.
            overwrite: Replace an ensemble that is there.

        Returns:
            The file.

        Raises:
            FileExistsError: If an ensemble is there and ``overwrite`` is false.
        """
        check_types(Ensemble.save, locals())
        file = Path(path) / FILE
        if file.exists() and not overwrite:
            raise FileExistsError(
                f"{file} exists; choose another path or pass overwrite=True"
            )
        tensors = {
            f"{owner}.{name}": tensor
            for owner, module in _parts(self).items()
            for name, tensor in tensor_state(module).items()
        }
        document: dict[str, Any] = {
            "tepui": __version__,
            "seeds": list(self.seeds),
            "members": [description(head) for head in self.heads.members],
            "extractor": None,
        }
        if self.extractor is not None:
            document["extractor"] = description(self.extractor)
        write_tensors(file, KIND, tensors, document)
        return file


def load(
    path: str | Path,
    factory: Factory | Sequence[Factory] | None = None,
    extractor: Factory | None = None,
) -> Ensemble:
    """Load an ensemble that :meth:`Ensemble.save` or a run wrote.

    Nothing in the file is executed: models of ``tepui.models`` are rebuilt from their
    names and arguments, all others by the factory.

    Args:
        path: The folder.
        factory: Returns an untrained member, or head where members share an extractor;
            needed only for models tepui does not know. One, or one per member.
        extractor: Returns the extractor that members share, with any weights; needed
            only where it is not part of a model that tepui knows.

    Returns:
        The ensemble, on the CPU, in eval mode.

    Raises:
        FileNotFoundError: If there is no ensemble.
        ValueError: If the file is foreign or damaged, or does not fit the factories.
    """
    states, document, file = _read(path)
    described, shared = document["members"], document.get("extractor")
    rule = f"be None for {file}, whose members share none"
    require(extractor is None or shared is not None, "extractor", rule, extractor)
    with seeded("load"):
        if factory is None:
            modules = _rebuilt_members(described, states, file)
        else:
            modules = [make() for make in factories_for(factory, len(described))]
        front = None
        if extractor is not None:
            front = frozen(extractor().eval())
        elif shared is not None:
            front = frozen(rebuilt(shared, states[EXTRACTOR], file, "extractor"))
    ensemble = Ensemble(modules, document["seeds"], front)
    for owner, module in _parts(ensemble).items():
        given = extractor if owner == EXTRACTOR else factory
        if given is None:
            take_dtypes(module, states[owner])
    _load_parts(ensemble, states, file)
    return ensemble.eval()


def load_into(ensemble: Ensemble, path: str | Path) -> None:
    """Load saved weights into an ensemble of the same shape."""
    states, document, file = _read(path)
    argument, members = f"members in {file}", len(document["members"])
    rule = f"be as many as the ensemble's ({len(ensemble)})"
    require(members == len(ensemble), argument, rule, members)
    rule = "share an extractor exactly if the ensemble's do"
    shared = EXTRACTOR in states
    require(shared == (ensemble.extractor is not None), argument, rule, shared)
    _load_parts(ensemble, states, file)


def _read(path: str | Path) -> tuple[States, dict[str, Any], Path]:
    """Return the state of every part, the document and the file."""
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    file = folder / FILE
    if not file.exists() and (folder / RUN).exists():
        rule = "finish it with resume=True (--resume), under the settings it began with"
        raise FileNotFoundError(f"the run in {folder} has not ended; {rule}")
    tensors, document = read_tensors(file, KIND)
    with reading(file, "an ensemble"):
        return _parted(tensors, document, file), document, file


def _parted(tensors: dict[str, Tensor], document: dict[str, Any], file: Path) -> States:
    """Return the tensors of every part, and look for all that a file must hold."""
    described = [(part["model"], part["config"]) for part in document["members"]]
    require(len(described) == len(document["seeds"]), f"seeds in {file}", "fit", None)
    states: States = {str(index): {} for index in range(len(described))}
    if document.get("extractor") is not None:
        states[EXTRACTOR] = {}
    for name, tensor in tensors.items():
        owner, _, inner_name = name.partition(".")
        require(owner in states, f"tensors in {file}", "belong to members", name)
        states[owner][inner_name] = tensor
    return states


def _rebuilt_members(
    described: list[dict[str, Any]], states: States, file: Path
) -> list[nn.Module]:
    """Build members that tepui knows; equal ones are built once and copied."""
    built: dict[str, nn.Module] = {}
    for index, item in enumerate(described):
        key = json.dumps(item)
        if key not in built:
            built[key] = rebuilt(item, states[str(index)], file)
    return [deepcopy(built[json.dumps(item)]) for item in described]


def _parts(ensemble: Ensemble) -> dict[str, nn.Module]:
    """Return what is saved, each part once: heads by number, and the extractor."""
    parts = {str(index): head for index, head in enumerate(ensemble.heads.members)}
    if ensemble.extractor is not None:
        parts[EXTRACTOR] = ensemble.extractor
    return parts


def _load_parts(ensemble: Ensemble, states: States, file: Path) -> None:
    for owner, module in _parts(ensemble).items():
        name = owner if owner == EXTRACTOR else f"member {owner}"
        load_tensor_state(module, states[owner], f"{name} of {file}")
