"""Tables in CSV files, as the tests of them write them."""

import csv

import numpy as np

NAMES = ["age", "city", "income", "sold", "price"]


def written(path, rows, names=NAMES, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    return path


def rows(count=60):
    draw = np.random.default_rng(0)
    return [
        [
            f"{draw.normal(40, 10):.3f}",
            str(draw.choice(["Bern", "Oslo", "Rome"])),
            f"{draw.normal(3e4, 5e3):.0f}",
            "yes" if draw.random() < 0.4 else "no",
            f"{draw.normal(2e5, 3e4):.2f}",
        ]
        for _ in range(count)
    ]


def labeled(path, cells, name="t", delimiter=","):
    """Write one column beside a target of two classes."""
    table = [[cell, "ab"[row % 2]] for row, cell in enumerate(cells)]
    return written(path / "t.csv", table, [name, "y"], delimiter)
