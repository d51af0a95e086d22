"""``tepui export``: a trained ensemble as one file that other programs run."""

from pathlib import Path
from typing import Literal

from tepui.cli.console import console
from tepui.cli.settings import Rule
from tepui.cli.values import Data, Extractor, Models


def export(
    run: Path,
    /,
    *,
    to: Literal["onnx", "torch"] | None = None,
    out: Path | None = None,
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    rule: Rule = "probability",
    coverage: float = 0.9,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> None:
    """Write a trained ensemble as one graph for onnxruntime or torch, without tepui.

    Such as:

        tepui export runs/sam --to onnx --out sam.onnx
        tepui export runs/sam --out sam.pt2
        tepui export runs/mine --model mypackage.Net

    Args:
        run: The folder of a run, or of a saved ensemble.
        to: A graph for onnxruntime and its kin, or a program of torch.export; by
            default the ending of --out decides, and without one onnx.
        out: The file; by default ensemble.onnx or ensemble.pt2 in the folder of the
            run.
        data: The data set on whose test part the graph is compared with the ensemble
            before it is written; what the run was trained on by default, required for
            other folders.
        model: The members' architecture, one or one per member; needed only for models
            tepui does not know.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        rule: How members are combined.
        coverage: Of intervals of numbers, unless the ensemble has conformal ones.
        tolerance: The largest difference from the ensemble that is allowed.
        overwrite: Replace an existing file.
    """
    from tepui.cli.folders import check_replaced
    from tepui.cli.members import opened
    from tepui.core.checks import require
    from tepui.export import export_ensemble
    from tepui.export.exporting import ENDINGS, format_by_ending

    chosen = to or ("onnx" if out is None else format_by_ending(out, "--out"))
    file = run / f"ensemble{ENDINGS[chosen]}" if out is None else out
    others = {*ENDINGS.values()} - {ENDINGS[chosen]}
    ending = f"end in {ENDINGS[chosen]} with --to {chosen}"
    require(file.suffix.lower() not in others, "--out", ending, str(file))
    check_replaced(file, None, overwrite)
    source = opened([run], model, extractor, lambda source: source.tested(data))
    samples = source.tested(data)
    exported = export_ensemble(
        source.ensemble,
        samples,
        file,
        to=chosen,
        rule=rule,
        coverage=coverage,
        tolerance=tolerance,
        overwrite=overwrite,
    )
    console().print(str(exported))
    runs = "onnxruntime.InferenceSession" if chosen == "onnx" else "torch.export.load"
    console().print(f'next: {runs}("{file}") answers without tepui')
