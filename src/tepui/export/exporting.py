"""From an ensemble to a file that other programs run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

from tepui.core.checks import require
from tepui.core.replacing import write_bytes
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.data.arrays import Inputs
from tepui.data.preparation import Preparation
from tepui.ensembles.ensemble import Ensemble
from tepui.export.agreement import check_agreement, differences, largest
from tepui.export.formats import Run, as_onnx, as_torch
from tepui.export.graph import COVERAGE, Graph
from tepui.export.samples import some_samples
from tepui.export.tracing import traced
from tepui.metrics import ConformalSets, Rule
from tepui.tasks import Prediction

Format = Literal["onnx", "torch"]
"""A graph for onnxruntime and its kin, or a program of ``torch.export`` (``.pt2``)."""

GraphPrecision = Literal["float32", "float16"]
"""What members compute in; whatever is made of their outputs is in float32."""

TOLERANCES: dict[GraphPrecision, float] = {"float32": 1e-4, "float16": 2e-2}
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
    precision: GraphPrecision = "float32",
    tolerance: float | None = None,
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
        precision: What members compute in.
        tolerance: The largest difference that is allowed, in units of the largest
            number expected or of one; 1e-4 by default, in float16 0.02.
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
    allowed = TOLERANCES[precision] if tolerance is None else tolerance
    require(allowed > 0, "tolerance", "be positive", allowed)
    path = Path(file)
    chosen = format_by_ending(path, "file") if to is None else to
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    given = some_samples(samples, ensemble.preparation, raw, ensemble.dtype)
    graph = Graph(ensemble, raw=given.raw, rule=rule, coverage=coverage)
    expected = graph.predict(given.inputs)
    written = graph if precision == "float32" else graph.halved()
    program = traced(written, given.of_size(max(2, len(given))))
    about = _about(graph, expected, precision)
    content, run = _WRITERS[chosen](program, list(expected.exported(coverage)), about)
    sizes = tuple(sorted({1, 2, len(given), len(given) + 3}))
    found = largest([_compared(graph, run, given.of_size(size)) for size in sizes])
    check_agreement(found, allowed)
    write_bytes(path, content)
    return Exported(path, found, allowed, sizes)


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
    beyond = None
    if isinstance(prediction.conformity, ConformalSets):
        beyond = prediction.conformity.beyond(prediction.probs)
    return differences(run(inputs), prediction.exported(graph.coverage), beyond)


def _about(
    graph: Graph, prediction: Prediction, precision: GraphPrecision
) -> dict[str, str]:
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
        "precision": precision,
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
