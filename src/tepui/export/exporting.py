"""From an ensemble to a file that other programs run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

import torch
from torch import Tensor
from torch.utils.data import Subset

from tepui.core.checks import require
from tepui.core.replacing import write_bytes
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.data.arrays import Arrays, Inputs, map_inputs
from tepui.data.preparation import Preparation
from tepui.data.stored import StoredData
from tepui.data.table import is_frame
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.inputs import as_data, input_batches
from tepui.export.formats import Run, as_onnx, as_torch, traced
from tepui.export.graph import COVERAGE, Graph
from tepui.metrics import ConformalSets, Rule
from tepui.metrics.conformal import ratio_weights
from tepui.tasks import Prediction

Format = Literal["onnx", "torch"]
"""A graph for onnxruntime and its kin, or a program of ``torch.export`` (``.pt2``)."""

ENDINGS: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
_WRITERS = {"onnx": as_onnx, "torch": as_torch}


@final
@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the ensemble.

    Attributes:
        file: The file.
        differences: The largest difference of each output from the ensemble's.
        tolerance: What they were allowed.
        sizes: The sizes of batches that were compared.
    """

    file: Path
    differences: Mapping[str, float]
    tolerance: float
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        name, most = max(self.differences.items(), key=lambda item: item[1])
        sizes = ", ".join(map(str, self.sizes))
        return (
            f"{self.file}: {', '.join(self.differences)}; largest difference from the "
            f"ensemble {most:.2g} ({name}), over batches of {sizes}"
        )


def export_ensemble(
    ensemble: Ensemble,
    samples: Any,
    file: str | Path,
    *,
    to: Format | None = None,
    raw: bool = False,
    rule: Rule = "probability",
    coverage: float = COVERAGE,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> Exported:
    """Write an ensemble as one graph, after comparing the two on real samples.

    The graph takes batches of any size and does what ``ensemble.predict(samples,
    raw=raw)`` does: it prepares inputs, runs all members (a shared extractor once),
    calibrates and scores. Its outputs have the names of the prediction's fields:
    ``probs``, ``labels``, ``confidence``, ``epistemic`` and ``ood_score`` of classes
    and of labels, and ``sets`` after ``Ensemble.conformal``; ``mean`` and ``std``, or
    ``median``, ``epistemic``, and ``lower`` and ``upper`` where there are intervals, of
    numbers, whose ``epistemic`` is a variance; ``mean`` and ``spread`` where the task
    is not known.

    Args:
        ensemble: The ensemble; it is left as it is.
        samples: Some inputs of the kind that the graph is to take, as for ``predict``;
            their type and shape become those of the graph. A data set of tepui gives
            what it stores, such as bytes. Of whole numbers in two axes, as of texts,
            the second may have any length where members allow it.
        file: What to write.
        to: ``"onnx"``, or ``"torch"`` for a program of ``torch.export``; by default the
            ending of the file decides, ``.onnx`` or ``.pt2``.
        raw: Numbers that are not bytes are raw too, and prepared inside the graph.
        rule: How members are combined.
        coverage: Of intervals, unless ``Ensemble.conformal`` gave the ensemble its own.
        tolerance: The largest difference that is allowed, in units of the largest
            number expected or of one.
        overwrite: Replace an existing file.

    Returns:
        The file, and how far its answers are from those of the ensemble.

    Raises:
        FileExistsError: If the file exists and ``overwrite`` is false.
        ImportError: If a library of the extra ``export`` is not installed.
        ValueError: If the ending names no format, members cannot be exported, or the
            graph differs from the ensemble by more than the tolerance; nothing is
            written then.

    Example:
        >>> import tempfile, torch
        >>> from torch import nn
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "model.pt2"
        ...     done = export_ensemble(ensemble, torch.rand(5, 4), path)
        ...     program = torch.export.load(path).module()
        >>> sorted(program(torch.rand(7, 4)))
        ['confidence', 'epistemic', 'labels', 'ood_score', 'probs']
        >>> done.sizes, max(done.differences.values()) < 1e-6
        ((1, 2, 5, 8), True)
    """
    check_types(export_ensemble, locals())
    require(tolerance > 0, "tolerance", "be positive", tolerance)
    path = Path(file)
    chosen = format_by_ending(path, "file") if to is None else to
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    given = some_samples(samples, ensemble.preparation, raw, ensemble.dtype)
    graph = Graph(ensemble, raw=given.raw, rule=rule, coverage=coverage)
    expected = graph.predict(given.inputs)
    program = traced(graph, given.of_size(max(2, len(given))))
    about = _about(graph, expected)
    content, run = _WRITERS[chosen](program, list(expected.exported(coverage)), about)
    sizes = tuple(sorted({1, 2, len(given), len(given) + 3}))
    parts = [_compared(graph, run, given.of_size(size)) for size in sizes]
    found = {
        name: float(torch.tensor([part[name] for part in parts]).max())  # NaN wins
        for name in parts[0]
    }
    agree = f"differ from the ensemble's by at most {tolerance:g} (nothing was written)"
    for name, difference in found.items():
        require(difference <= tolerance, f"output {name!r}", agree, difference)
    write_bytes(path, content)
    return Exported(path, found, tolerance, sizes)


def format_by_ending(file: Path, argument: str) -> Format:
    """Return what a file's ending says it is.

    Example:
        >>> format_by_ending(Path("my.pt2"), "file")
        'torch'
    """
    named = {ending: name for name, ending in ENDINGS.items()}
    ending = file.suffix.lower()
    require(ending in named, argument, f"end in {' or '.join(named)}", str(file))
    return named[ending]


def _compared(graph: Graph, run: Run, inputs: Inputs) -> dict[str, float]:
    prediction = graph.predict(inputs)
    beyond, made = None, prediction.conformity
    if isinstance(made, ConformalSets):
        weights = ratio_weights(made.ratio, prediction.outputs)
        beyond = made.beyond(prediction.probs, weights)
    return differences(run(inputs), prediction.exported(graph.coverage), beyond)


def _about(graph: Graph, prediction: Prediction) -> dict[str, str]:
    """Return what a file says of itself, each a text."""
    ensemble, task = graph.ensemble, prediction.task
    calibration, prepared = ensemble.calibration, ensemble.preparation
    promised = prediction.conformity
    coverage = graph.coverage if promised is None else promised.coverage
    return {
        "tepui": __version__,
        "task": task.written(),
        "classes": json.dumps(() if prepared is None else prepared.classes),
        **_of_table(prepared),
        "members": str(prediction.members),
        "rule": graph.rule,
        "calibration": "none" if calibration is None else calibration.method,
        "conformal": "none" if promised is None else promised.score,
        "coverage": str(coverage),
    }


def _of_table(prepared: Preparation | None) -> dict[str, str]:
    """Return what the numbers of a table's rows, and those that are predicted, mean."""
    if prepared is None or not prepared.columns:
        return {}
    units = None if prepared.units is None else asdict(prepared.units)
    return {
        "columns": json.dumps([f for c in prepared.columns for f in c.features]),
        "units": json.dumps(units),
    }


SAMPLES = 64  # that are compared at most


@dataclass(frozen=True)
class Samples:
    """Inputs as a user of the graph has them, and whether they are raw."""

    inputs: Inputs
    raw: bool

    def __len__(self) -> int:
        if isinstance(self.inputs, Tensor):
            return len(self.inputs)
        return len(next(iter(self.inputs.values())))

    def of_size(self, size: int) -> Inputs:
        """Return so many of them, repeated where there are fewer."""
        rows = torch.arange(size) % len(self)
        return map_inputs(lambda tensor: tensor[rows], self.inputs)


def some_samples(
    given: Any, preparation: Preparation | None, raw: bool, dtype: torch.dtype
) -> Samples:
    """Return the first samples of anything that ``predict`` takes.

    Data sets of tepui give what they store, where the ensemble knows how to prepare it,
    and tables rows in the units of their columns; all others what they prepare
    themselves.

    Example:
        >>> some_samples(torch.arange(3), None, False, torch.float32).of_size(5)
        tensor([0, 1, 2, 0, 1])
    """
    data = as_data(given, preparation, dtype)
    table = preparation if preparation and preparation.columns else None
    file = isinstance(given, str | Path) or is_frame(given)
    if table and file and isinstance(data, Tensor):
        return Samples(table.in_units(data[:SAMPLES]), True)
    if isinstance(data, Tensor | dict):
        return Samples(map_inputs(lambda tensor: tensor[:SAMPLES].cpu(), data), raw)
    source: Any = data
    rows = torch.arange(min(SAMPLES, len(data)))
    while isinstance(source, Subset):
        rows = torch.as_tensor(source.indices)[rows]
        source = source.dataset
    if isinstance(source, Arrays | StoredData) and preparation is not None:
        stored = source.raw(rows)
        if table:
            seen = source.prepare(stored)
            assert isinstance(seen, Tensor)
            return Samples(table.in_units(seen), True)
        return Samples(map_inputs(lambda tensor: tensor.cpu(), stored), True)
    cpu = torch.device("cpu")
    batches = input_batches(
        data, None, raw=False, batch_size=SAMPLES, workers=0, device=cpu, dtype=dtype
    )
    return Samples(next(batches), False)


def differences(
    exported: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    beyond: Tensor | None = None,
) -> dict[str, float]:
    """Return the largest difference of each output.

    Numbers are compared in units of the largest one expected, or of one if that is
    smaller. A label differs by as much as it is less probable, by the ensemble's own
    probabilities, than the one expected: what is equally probable is no mistake. Sets
    differ by how far a class that is in one of them alone lies from their limit, which
    ``beyond`` says.

    Example:
        >>> probs, labels = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
        >>> expected = {"probs": probs, "labels": labels}
        >>> differences({"probs": probs + 0.25, "labels": labels + 1}, expected)
        {'probs': 0.25, 'labels': 0.0}
    """
    found = {}
    for name, wanted in expected.items():
        given = exported[name]
        rule = f"have the shape {tuple(wanted.shape)} of the ensemble's"
        fits = given.shape == wanted.shape
        require(fits, f"output {name!r}", rule, tuple(given.shape))
        if name == "labels":
            found[name] = _less_probable(given, wanted, expected["probs"])
        elif name == "sets":
            assert beyond is not None
            found[name] = float(beyond.abs().where(given != wanted, 0).max())
        else:
            unit = max(1.0, float(wanted.abs().max()))
            found[name] = float((given.double() - wanted.double()).abs().max()) / unit
    return found


def _less_probable(given: Tensor, wanted: Tensor, probs: Tensor) -> float:
    """Return by how much labels are less probable than others, at most."""
    if given.shape == probs.shape:  # yes or no of each label
        gaps = (2 * probs - 1).abs() * (given != wanted)
        return float(gaps.max())
    chosen, best = (probs.gather(1, label.unsqueeze(1)) for label in (given, wanted))
    return float((best - chosen).max())
