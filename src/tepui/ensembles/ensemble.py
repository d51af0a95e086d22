"""An ensemble: members, their seeds, and their joint predictions."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.seeding import SEED, member_seeds
from tepui.core.storage import write_tensors
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.data.arrays import Inputs
from tepui.data.loading import inputs_to
from tepui.data.preparation import Preparation
from tepui.ensembles.building import Factory, built_members, warn_of_identical
from tepui.ensembles.disagreements import Disagreements
from tepui.ensembles.feature_detectors import (
    joined_scores,
    scoring,
    write_detectors,
)
from tepui.ensembles.inputs import input_batches, place_of
from tepui.ensembles.meaning import Meaningful, learned_of
from tepui.ensembles.outputs import dataset_logits
from tepui.metrics import Rule
from tepui.models.adapters import adapted
from tepui.models.split import Frozen, OnFeatures, frozen
from tepui.modules.running import (
    check_rows,
    chunks,
    device_of,
    dtype_of,
    evaluating,
    forward,
    refusal_named,
)
from tepui.modules.sharing import Size, size_of
from tepui.modules.state import description, tensor_state
from tepui.tasks.base import Task
from tepui.tasks.named import settled
from tepui.tasks.prediction import Prediction, calibrated

FILE = "ensemble.safetensors"
KIND = "ensemble"
EXTRACTOR = "extractor"


class Ensemble(Meaningful):
    """Members that predict together.

    Args:
        modules: The members; each maps a batch of inputs to ``(samples, outputs)``.
        seed: One seed, or one per member: what their training draws derive from.
        extractor: If given, the modules are heads that share it; see
            :meth:`on_features`.
        task: What outputs mean; ``fit`` learns it from the loss.

    Attributes:
        members: The members; each takes raw inputs.
        seeds: One seed per member.
        extractor: The frozen part that all members share, if there is one.
        preparation: What was done to the training data before members saw them, which
            ``fit`` learns from data sets of :mod:`tepui.data`; None if it is not known.

    Example:
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=13)
        >>> out = ensemble.predict(torch.zeros(5, 4))
        >>> out.logits.shape, out.probs.shape
        (torch.Size([2, 5, 3]), torch.Size([5, 3]))
    """

    extractor: Frozen | None
    preparation: Preparation | None

    def __init__(
        self,
        modules: Iterable[nn.Module],
        seed: int | Sequence[int] = SEED,
        extractor: nn.Module | None = None,
        task: Task | None = None,
    ) -> None:
        check_types(Ensemble.__init__, locals())
        super().__init__()
        self.task = task
        self.preparation = None
        self.extractor = None if extractor is None else frozen(extractor)
        members = list(modules)
        alike = all(isinstance(member, nn.Module) for member in members)
        kinds = [type(member).__name__ for member in members]
        rule = "hold modules; weights become members by tepui.ensembles.ensemble_of"
        require(alike, "modules", rule, kinds)
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
        task: Task | None = None,
    ) -> Self:
        """Build members from independent, reproducible initializations.

        Args:
            factory: Returns a new module at every call; or one factory per member.
            members: How many members; as many as factories or seeds if not given.
            seed: One integer, or one per member. Member ``i`` depends on its own seed
                alone, so adding members changes no other.
            task: What outputs mean; ``fit`` learns it from the loss.

        Returns:
            The ensemble, in train mode, on the CPU.

        Raises:
            ValueError: If the counts disagree, or a factory returns no new module.
        """
        check_types(Ensemble.build, locals())
        modules = built_members(factory, members, seed)
        ensemble = cls(modules, seed, task=task)
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
        and runs the extractor once per batch for all heads. In ``fit`` all heads
        therefore see the same batches, those of the first one's seed, augmented alike;
        methods, and scores of your own, see heads and features. Heads whose batches
        must differ take a pass each: with one augmentation policy per member, and
        once ``SharpBalance`` has divided the data (not with ``stratified=False``).

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

    @classmethod
    def adapters(
        cls,
        body: nn.Module,
        adapter: Any,
        members: int | None = None,
        seed: int | Sequence[int] = SEED,
    ) -> Self:
        """Build members that share a frozen body, each with an adapter of its own.

        Args:
            body: Any module, left as it is. Of a model of :mod:`tepui.models`, as
                ``from_huggingface`` and ``from_timm`` return it, each member trains a
                classifier of its own, too, which begins anew.
            adapter: ``tepui.models.LoRA(...)``, or a configuration of PEFT that keeps
                the body frozen, such as ``LoraConfig`` or ``IA3Config``.
            members: As for :meth:`build`.
            seed: As for :meth:`build`.

        Returns:
            The ensemble; what is frozen is held once, in files too.

        Raises:
            ImportError: If PEFT is not installed.
            ValueError: If the body has no layers that the adapter names.
        """
        check_types(Ensemble.adapters, locals())
        return cls.build(partial(adapted, body, adapter), members, seed)

    @property
    def heads(self) -> "Ensemble":
        """The heads as an ensemble that takes features; without extractor, itself.

        Both hold the same modules: training the heads trains this ensemble.
        """
        if self.extractor is None:
            return self
        heads = Ensemble(self._heads(), self.seeds)
        heads._meaning = self._meaning
        return heads

    def subset(self, members: Sequence[int]) -> "Ensemble":
        """Return an ensemble of some of the members, the same modules.

        It keeps their seeds, task, preparation of inputs and classes. What was fitted
        for all members is dropped: calibration, sets, held-out scores, detectors.

        Args:
            members: Which ones, by their numbers from 0, in the order wanted.

        Example:
            >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), seed=[13, 17, 27])
            >>> ensemble.subset([0, 2]).seeds
            (13, 27)
        """
        check_types(Ensemble.subset, locals())
        check_seeds(self.seeds, len(self))
        check_chosen(members, len(self))
        modules = self._heads() if self.extractor is not None else [*self.members]
        kept, seeds = [modules[n] for n in members], [self.seeds[n] for n in members]
        part = Ensemble(kept, seeds, self.extractor, self.task)
        part.preparation, part.trained_on = self.preparation, self.trained_on
        return part

    @property
    def dtype(self) -> torch.dtype:
        """The type that members compute in."""
        return dtype_of(self) or torch.float32

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
        device = device_of(self)
        parts = []
        with evaluating(self), torch.no_grad():
            for chunk in chunks(inputs, batch_size):
                with refusal_named(chunk):
                    outputs = self(inputs_to(chunk, device))
                parts.append(outputs.to(place_of(chunk)))
        return torch.cat(parts, dim=1)

    def predict(
        self,
        inputs: Any,
        *,
        raw: bool = False,
        rule: Rule = "probability",
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Prediction:
        """Predict with all members.

        Data sets prepare their samples themselves. Image files, texts and
        images of bytes (``uint8``) are raw and prepared as the training data were; all
        other numbers are taken as they come, unless ``raw`` says that they are raw too.

        Args:
            inputs: A tensor, a numpy array, or a mapping of either; a map-style data
                set, with targets or without; a path to an image, or to a folder whose
                images are taken in the order of their names, or several such paths; for
                an ensemble that learned from
                :class:`tepui.data.Texts`, a text, several, or pairs of them.
            raw: Prepare other numbers too, as the training data were.
            rule: How members are combined; of no effect on numbers.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set of your own.

        Returns:
            What the task has: probabilities, labels and confidence of classes, mean and
            interval of numbers, and how uncertain they are; from one forward pass. On
            the device of the inputs, those of a data set on the CPU. Numbers that were
            learned from a :class:`tepui.data.Table` are in the unit of its column.

        Raises:
            ValueError: If inputs are of no known kind, are raw and the ensemble does
                not know how to prepare them, or do not fit the members; if images
                cannot be read, all of which are named; or if nobody has said what the
                outputs mean.

        Example:
            >>> import tepui
            >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 1), members=2)
            >>> ensemble.task = tepui.tasks.Numbers()
            >>> ensemble.predict(torch.zeros(5, 4)).mean.shape
            torch.Size([5, 1])
        """
        check_types(Ensemble.predict, locals())
        self._check_rule(rule)
        batches = input_batches(
            inputs,
            self.preparation,
            raw=raw,
            batch_size=batch_size,
            workers=workers,
            device=device_of(self),
            dtype=self.dtype,
        )
        place = place_of(inputs)
        parts, features = [], []
        with scoring(self, self.judges) as scores:
            for batch in batches:
                with evaluating(self), torch.no_grad(), refusal_named(batch):
                    outputs = self(batch)
                check_rows(outputs, batch)
                parts.append(outputs.to(place))
                found = scores()
                features.append({name: part.to(place) for name, part in found.items()})
        return self.predicted(torch.cat(parts, dim=1), rule, joined_scores(features))

    def disagreements(
        self, data: Dataset[Any], count: int = 10, batch_size: int = 1024
    ) -> Disagreements:
        """Return the samples that members disagree on most, to be looked at.

        Of those for which two members or more name different classes, the first have
        the highest mutual information of member and answer.

        Args:
            data: Samples, whose labels are shown beside the answers.
            count: How many at most.
            batch_size: How many samples go through a member at once.

        Returns:
            Their places, and what members say of them. It prints itself.

        Raises:
            ValueError: If there is one member only, or none chooses between classes.

        Example:
            >>> import tepui
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2)
            >>> found = ensemble.disagreements(data, 5)
            >>> found.answers.shape, found.by_class.sum(1)[0]
            (torch.Size([2, 5]), tensor(30))
        """
        outputs, labels = dataset_logits(self, data, batch_size, precision="float32")
        predicted = self.predicted(outputs.cpu())
        return Disagreements.of(data, predicted, labels.cpu(), count)

    def predicted(
        self,
        outputs: Tensor,
        rule: Rule = "probability",
        feature_scores: Mapping[str, Tensor] | None = None,
    ) -> Prediction:
        """Return what outputs of the members predict, calibrated.

        Args:
            outputs: What :meth:`forward` returned, ``(members, samples, outputs, …)``.
            rule: How members are combined; of no effect on numbers.
            feature_scores: What :attr:`detectors` say of the inputs' features. Without
                them, outputs alone tell how unfamiliar inputs are.

        Returns:
            The prediction, as :meth:`predict` makes it of inputs.
        """
        self._check_rule(rule)
        if self.calibration is not None or self.conformity is not None:
            check_seeds(self.seeds, len(self))  # which all members were fitted for
        known = self.preparation or Preparation()
        changed, joint = calibrated(outputs, self.calibration)
        return settled(self.task, tuple(changed.shape)).prediction(
            changed,
            rule=rule,
            classes=known.classes,
            units=known.units,
            joint=joint,
            conformity=self.conformity,
            held_out_scores=self.judged_by if feature_scores else self.held_out_scores,
            feature_scores=feature_scores or {},
            uncalibrated=outputs,
        )

    def size(self) -> Size:
        """Return how many bytes members train, and how many they share.

        Example:
            >>> body = nn.Linear(64, 64).requires_grad_(False)
            >>> heads = [nn.Sequential(body, nn.Linear(64, 2)) for _ in range(3)]
            >>> print(Ensemble(heads).size())
            0.00 MiB trained per member, 0.02 MiB shared, 0.02 MiB in all
        """
        return size_of([*self.members])

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Save members and seeds as one safetensors file with a JSON header.

        An extractor that members share is stored once. What outputs mean, how raw
        inputs are prepared, calibration, what makes sets and what held-out samples
        scored are saved too; :attr:`detectors` in a file beside it.

        Args:
            path: A folder; the file in it is ``ensemble.safetensors``.
            overwrite: Replace an ensemble that is there.

        Returns:
            The file.

        Raises:
            FileExistsError: If an ensemble is there and ``overwrite`` is false.
            ValueError: If members were removed in place, see :meth:`subset`.
        """
        check_types(Ensemble.save, locals())
        check_seeds(self.seeds, len(self))
        file = Path(path) / FILE
        if file.exists() and not overwrite:
            raise FileExistsError(
                f"{file} exists; choose another path or pass overwrite=True"
            )
        learned, fitted = learned_of(self)
        tensors = fitted | {
            f"{owner}.{name}": tensor
            for owner, module in parts_of(self).items()
            for name, tensor in tensor_state(module).items()
        }
        document: dict[str, Any] = {
            "tepui": __version__,
            "seeds": list(self.seeds),
            "members": [description(head) for head in self.heads.members],
            "extractor": None
            if self.extractor is None
            else description(self.extractor),
            "task": None if self.task is None else self.task.written(),
            "preparation": None,
            **learned,
            "trained_on": list(self.trained_on),
        }
        if self.preparation is not None:
            document["preparation"] = self.preparation.document()
        write_tensors(file, KIND, tensors, document)
        write_detectors(file.parent, self.detectors, self)
        return file


def parts_of(ensemble: Ensemble) -> dict[str, nn.Module]:
    """Return what is saved, each part once: heads by number, and the extractor."""
    parts = {str(index): head for index, head in enumerate(ensemble.heads.members)}
    if ensemble.extractor is not None:
        parts[EXTRACTOR] = ensemble.extractor
    return parts


def check_chosen(members: Sequence[int], count: int) -> None:
    """Refuse numbers that are not some of the members, each once.

    Example:
        >>> check_chosen([0, 3], 3)
        Traceback (most recent call last):
        ValueError: members must be different numbers from 0 to 2, got [0, 3]
    """
    known = all(0 <= number < count for number in members)
    rule = f"be different numbers from 0 to {count - 1}"
    require(known and len({*members}) == len(members) > 0, "members", rule, members)


def check_seeds(seeds: Sequence[int], members: int) -> None:
    """Refuse an ensemble whose members were removed or added in place."""
    rule = f"be as many as the members ({members}); ensemble.subset keeps both together"
    require(len(seeds) == members, "seeds", rule, len(seeds))
