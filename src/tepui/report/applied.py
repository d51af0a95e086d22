"""What calibration and conformal sets give, beside the plain numbers."""

from collections.abc import Sequence

from markupsafe import Markup

from tepui.evaluation.evaluations import FITTED_ON_TEST
from tepui.evaluation.results import of_fitted_samples
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.markup import TableCell, lead, note, table
from tepui.report.measures import RMSE
from tepui.report.tables import mean_cell

# Names, headings, scales and digits.
SCORES = (
    ("accuracy", "accuracy %", 100, 2),
    ("nll", "NLL", 1, 3),
    ("ece", "ECE %", 100, 2),
    ("brier", "Brier", 1, 3),
)
SETS = (("coverage", "coverage %", 100, 2), ("size", "size", 1, 3))


def applied_parts(comparison: Comparison) -> list[Markup]:
    """Return tables of calibrated scores and of coverage, where there are any."""
    fitted = [
        method.label
        for method in comparison.methods
        if any(
            (own.evaluation.get("applied") or {}).get(FITTED_ON_TEST)
            for own in method.ensembles
        )
    ]
    said = [lead(of_fitted_samples(", ".join(fitted)))] if fitted else []
    return [*said, *_calibrated(comparison, bool(fitted)), *_covered(comparison)]


def _calibrated(comparison: Comparison, fitted_on_test: bool) -> list[Markup]:
    rows: list[list[str | TableCell]] = []
    for method in comparison.methods:
        own = [t for t in method.ensembles if _score(t, "clean", "nll")]
        if own:
            before = (
                [t.evaluation["clean"].get(name) for t in own] for name, *_ in SCORES
            )
            after = ([_score(t, "clean", name) for t in own] for name, *_ in SCORES)
            for how, columns in {"as trained": before, "calibrated": after}.items():
                cells = (
                    mean_cell([v for v in values if v is not None], scale, digits)
                    for values, (*_, scale, digits) in zip(columns, SCORES, strict=True)
                )
                rows.append([method.label, how, *cells])
    if not rows:
        return []
    headings = ["method", "probabilities", *(title for _, title, _, _ in SCORES)]
    shown = table("Before and after calibration", headings, rows, words=2)
    where = "" if fitted_on_test else "was fitted on held-out data and "
    return [shown, note(f"Calibration {where}is applied by predict.")]


def _covered(comparison: Comparison) -> list[Markup]:
    known = [e for e in comparison.methods if _values(e, "clean", "coverage")]
    if not known:
        return []
    first = known[0].ensembles[0].evaluation["applied"]
    levels, natural = ["clean", *first["severities"]], [*first.get("natural", ())]
    numbers = RMSE.score in comparison.score_names
    kind = "conformal intervals" if numbers else "conformal sets"
    rows: list[list[str | TableCell]] = []
    for method in known:
        promised = mean_cell(_values(method, "clean", "promised"), 100, 2)
        for name, title, scale, digits in SETS:
            cells = (
                mean_cell(_values(method, level, name), scale, digits)
                for level in [*levels, *natural]
            )
            told = promised if name == "coverage" else ""
            rows.append([method.label, title, told, *cells])
    headings = ["method", "score", "promised %", "clean"]
    headings += [*(f"severity {level}" for level in levels[1:]), *natural]
    return [table(f"Coverage and size of {kind}", headings, rows, words=2)]


def _values(method: MethodResult, level: str, name: str) -> Sequence[float]:
    """Return a score of all ensembles that have it."""
    values = (_score(trained, level, name) for trained in method.ensembles)
    return [value for value in values if value is not None]


def _score(trained: Trained, level: str, name: str) -> float | None:
    """Return a score of what is applied; None without it."""
    applied = trained.evaluation.get("applied") or {}
    levels = applied.get("severities", {}) | applied.get("natural", {})
    levels |= {"clean": applied.get("clean", {})}
    value: float | None = levels.get(level, {}).get(name)
    return value
