"""Print the tables of diversification_studies.md, from the results of our own studies.

Run from anywhere: python docs/make_diversification_tables.py
"""

from pathlib import Path

from tepui.papers.writing import as_markdown
from tepui.studies import estimate, read_results

RESULTS = Path(__file__).parent / "results" / "small" / "ours"
SHORTCUT_METHODS = {
    "deep_ensemble": "deep ensemble",
    "a2d": "A2D",
    "a2d_parallel": "A2D, parallel",
    "divdis": "DivDis",
}
SHORTCUT_COLUMNS = {
    "best member (oracle)": {"metric": "accuracy", "member": "best"},
    "worst member": {"metric": "accuracy", "member": "worst"},
    "ensemble": {"metric": "ensemble_accuracy"},
    "disagreement": {"metric": "disagreement"},
    "one-sidedness": {"metric": "one_sidedness"},
    "shortcut intact, best": {"metric": "accuracy_shortcut_intact"},
    "labeled images, worst": {"metric": "accuracy_labeled_images"},
}
DIFFERENCES = (
    ("varied hyperparameters", "deep ensemble"),
    ("SED", "deep ensemble"),
    ("SED, weight 0", "deep ensemble"),
    ("deep ensemble, smoothing 0.5", "deep ensemble"),
    ("SED", "SED, weight 0"),
    ("SED", "SED, no sample weights"),
    ("SED, smoothing 0.5", "SED, weight 0, smoothing 0.5"),
    ("SED, weight 5, smoothing 0.5", "SED, weight 0, smoothing 0.5"),
)


def main():
    print("\n".join(tables()))


def tables():
    """Return all tables, in the order of the page."""
    return [shortcut_table(), *control_tables()]


def shortcut_table():
    found = read_results(RESULTS / "shortcut")
    rows = []
    for method, label in SHORTCUT_METHODS.items():
        cells = [found.one(method=method, **at) for at in SHORTCUT_COLUMNS.values()]
        lowest = f"{min(cells[0].values):.3f}"
        rows.append([label, *(cell(each.values) for each in cells), lowest])
    headings = ["method", *SHORTCUT_COLUMNS, "best member, lowest seed"]
    return as_markdown(headings, rows)


def control_tables():
    found = read_results(RESULTS / "sed_controls")
    names = list(dict.fromkeys(record.method for record in found.records))
    columns = {heading(each): each for each in found.find(method=names[0])}

    def values(method, column):
        same = columns[column]
        at = {"metric": same.metric, "dataset": same.dataset, **same.at}
        return found.one(method=method, **at).values

    levels = [column for column in columns if "AUROC" not in column]
    for part in (levels, [column for column in columns if column not in levels]):
        rows = [
            [name, *(cell(values(name, column)) for column in part)] for name in names
        ]
        yield as_markdown(["heads", *part], rows)
    main = [c for c in columns if "member" not in c and "AUROC, severity 1" not in c]
    rows = [
        [
            f"{first}, less {second}",
            *(paired(values(first, column), values(second, column)) for column in main),
        ]
        for first, second in DIFFERENCES
    ]
    yield as_markdown(["difference", *main], rows)


def heading(record):
    words = {
        "unique_predictions": "unique",
        "ensemble_accuracy": "accuracy",
        "individual_accuracy": "member accuracy",
        "auroc": f"{record.at.get('score')}-AUROC",
    }
    return f"{words[record.metric]}, {record.dataset}"


def paired(first, second):
    """Return the mean of the differences in every repetition."""
    return cell([a - b for a, b in zip(first, second, strict=True)], "+")


def cell(values, sign=""):
    found = estimate(values)
    return f"{found.mean:{sign}.3f} ± {found.error:.3f}"


if __name__ == "__main__":
    main()
