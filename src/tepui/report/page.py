"""A comparison as one self-contained page."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tepui.experiments import Comparison
from tepui.report import figures
from tepui.report.ood import SCORES, auroc_rows, galleries, ood_histograms
from tepui.report.tables import Row, columns, headings, rows
from tepui.storage import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0072b2; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem;
  padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .45rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid var(--line); }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
tr.first td { border-top: 1px solid var(--line); }
td.best { font-weight: 700; }
figure { margin: 1rem 0; background: #fff; border: 1px solid var(--line);
  border-radius: .5rem; padding: .5rem; }
figure svg { display: block; width: 100%; height: auto; max-width: 46rem;
  margin: auto; }
figcaption { color: #333; padding: .5rem; font-size: .9rem; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; border-radius: .5rem; }
h3, h4 { margin: 1rem 0 .3rem; } h4 { font-size: .9rem; font-weight: 600; }
.strip { display: flex; flex-wrap: wrap; gap: .6rem; }
.picture { width: 6rem; font-size: .8rem; line-height: 1.3; overflow-wrap: anywhere; }
.picture span { display: block; }
.picture img { width: 100%; image-rendering: pixelated; border: 1px solid var(--line); }
dl { display: grid; grid-template-columns: auto 1fr; gap: .2rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""

GLOSSARY = {
    "individual": "mean accuracy of the members on their own",
    "ensemble": "accuracy of their averaged probabilities",
    "gain": "ensemble less individual accuracy, in points",
    "DER": "disagreement of two members over their error; higher is more diverse",
    "ECE": "expected calibration error, 15 bins; lower is better",
    "NLL": "negative log likelihood of the true class; lower is better",
    "sharpness": "largest rise of the training loss within an adaptive ball around a "
    "member's weights, mean over members; lower is flatter",
}


def write_report(
    comparison: Comparison, folder: str | Path, runs: str | Path | None = None
) -> Path:
    """Write ``report.html`` and its figures.

    Args:
        comparison: What to show.
        folder: Where; the figures go into ``figures/`` below it as PNG and SVG.
        runs: The comparison's folder, which holds the pictures of samples; ``folder``
            if not given.

    Returns:
        The page.
    """
    folder = Path(folder)
    pictures = galleries(comparison, folder if runs is None else Path(runs))
    drawn = []
    for name, caption, draw in _figures(comparison):
        figure = draw(comparison)
        svg = figures.as_svg(figure)
        with replacing(folder / "figures" / f"{name}.svg") as file:
            file.write_text(svg)
        with replacing(folder / "figures" / f"{name}.png") as file:
            file.write_bytes(figures.as_png(figure))
        drawn.append((name, caption, svg))
    page = folder / "report.html"
    with replacing(page) as file:
        file.write_text(render(comparison, drawn, pictures))
    return page


def render(
    comparison: Comparison,
    drawn: list[tuple[str, str, str]],
    pictures: Sequence[str] = (),
) -> str:
    """Return the page as text; every string from the comparison is escaped.

    Args:
        comparison: What to show.
        drawn: Name, caption and SVG of each figure.
        pictures: Samples as HTML, from :func:`tepui.report.ood.galleries`.

    Returns:
        A whole HTML document without outside references.
    """
    title = escape(comparison.title)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{title}</h1>",
        f"<p>{escape(_introduction(comparison))}</p>",
        "<h2>Results</h2>",
        _table(["data", "method", *headings(comparison)], rows(comparison)),
        _definitions({name: GLOSSARY[name] for name in _titles(comparison)}),
        "<h2>Figures</h2>",
        *(_figure(*item) for item in drawn),
        *_unfamiliar(comparison, pictures),
        *_sets(comparison),
        "<h2>How to reproduce this</h2>",
        f"<pre>{escape(str(comparison.environment.get('command', '')))}</pre>",
        _definitions(
            {k: v for k, v in comparison.environment.items() if k != "command"}
        ),
        "<h2>Settings</h2>",
        _definitions({k: _plain(v) for k, v in comparison.settings.items()}),
        "<h2>Methods</h2>",
        _definitions({m.label: _plain(m.hyperparameters) for m in comparison.methods}),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _figures(
    comparison: Comparison,
) -> "list[tuple[str, str, Callable[[Comparison], Figure]]]":
    found: list[tuple[str, str, Callable[[Comparison], Figure]]] = [
        (
            "accuracy",
            "Accuracy of the members (light) and what averaging them adds (dark); "
            "bars show the standard error over ensembles. The axes do not start at "
            "zero.",
            figures.accuracy_bars,
        ),
    ]
    if comparison.has_shift:
        found.append(
            (
                "severity",
                "Accuracy of the ensembles as the corruption of the test images grows, "
                "averaged over all types of corruption.",
                figures.accuracy_by_severity,
            )
        )
    if comparison.has_sharpness:
        found.append(
            (
                "sharpness",
                "Sharpness of the members against their diversity on test data; one "
                "point per ensemble. The trade-off: flatter members (left) tend to "
                "disagree less per error (low).",
                figures.sharpness_and_diversity,
            )
        )
    found.append(
        (
            "reliability",
            "How often the ensembles are right at each confidence. Points below the "
            "diagonal are over-confident; larger markers hold more samples, and bins "
            "with fewer than ten are left out.",
            figures.reliability_diagram,
        )
    )
    for number, data in enumerate(comparison.ood_sets):
        caption = (
            f"Two scores of test samples and of unfamiliar ones ({data}), over their "
            "possible range, all ensembles of a method together; shares are drawn on a "
            "logarithmic scale."
        )
        draw = partial(ood_histograms, data=data)
        found.append((f"unfamiliar-{number + 1}", caption, draw))
    return found


def _titles(comparison: Comparison) -> list[str]:
    return [column.title for column in columns(comparison)]


def _introduction(comparison: Comparison) -> str:
    settings = comparison.settings
    repeated = settings["ensembles"]
    errors = (
        f"Numbers are means ± standard errors over {repeated} ensembles per method."
        if repeated > 1
        else "One ensemble per method was trained: differences may be chance."
    )
    first = comparison.methods[0].ensembles[0].evaluation
    shift = (
        f" and {len(first['cells'])} corrupted copies of them" if first["cells"] else ""
    )
    return (
        f"Ensembles of {settings['members']} {settings['model']} members, trained "
        f"{settings['epochs']} epochs on {settings['train']['samples']} samples and "
        f"tested on {first['samples']} samples{shift}. Members are joined by the "
        f"{first['rule']} rule. {errors}"
    )


def _table(titles: Iterable[str], shown: Iterable[Row]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in titles)
    lines, last = [], None
    for row in shown:
        cells = "".join(
            f'<td class="best">{escape(text)}</td>'
            if best
            else f"<td>{escape(text)}</td>"
            for text, best in zip(row.cells, row.best, strict=True)
        )
        start = ' class="first"' if row.data != last else ""
        last = row.data
        lines.append(
            f"<tr{start}><td>{escape(row.data)}</td><td>{escape(row.method)}</td>"
            f"{cells}</tr>"
        )
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        "<p>Bold marks the best mean of a column.</p>"
    )


def _unfamiliar(comparison: Comparison, pictures: Sequence[str]) -> list[str]:
    """Return the section on unfamiliar samples, where there are any."""
    if not comparison.ood_sets:
        return []
    titles = [score.replace("_", " ") for score in SCORES]
    return [
        "<h2>Unfamiliar samples</h2>",
        "<p>How well each score tells samples of unfamiliar sets from test samples: "
        "AUROC in %, 50 for a score that tells nothing. Each ensemble's AUPR and FPR95 "
        "stand in its evaluation.json.</p>",
        _table(["data", "method", *titles], auroc_rows(comparison)),
        *pictures,
    ]


def _sets(comparison: Comparison) -> list[str]:
    """Return the section on sharpness-aware sets, where a method has any."""
    lines = []
    for method in comparison.methods:
        for number, trained in enumerate(method.ensembles):
            sets = trained.summary
            for member, size in enumerate(sets.get("sizes", [])):
                overlaps = ", ".join(
                    f"{overlap:.2f}"
                    for other, overlap in enumerate(sets["overlaps"][member])
                    if other != member
                )
                cells = [method.label, f"ensemble {number + 1}", f"member {member + 1}"]
                cells += [f"{size} ({size / sets['samples']:.0%})", overlaps]
                row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
                lines.append(f"<tr>{row}</tr>")
    if not lines:
        return []
    titles = ["method", "ensemble", "member", "samples", "overlap with the others"]
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return [
        "<h2>Sharpness-aware sets</h2>",
        "<p>How many training samples each member met sharpness-aware after the "
        "switch, and how much of that set it shares with each other member's (common "
        "samples over samples in either).</p>",
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(lines)}</tbody></table></div>",
    ]


def _figure(name: str, caption: str, svg: str) -> str:
    label = escape(f"Figure: {name}", quote=True)
    return (
        f'<figure><div role="img" aria-label="{label}">{svg}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _definitions(items: Mapping[str, object]) -> str:
    rows = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in items.items()
    )
    return f"<dl>{rows}</dl>"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
