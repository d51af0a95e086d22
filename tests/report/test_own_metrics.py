"""Metrics of the caller's own have a column in the table and on the page."""

import io

from rich.console import Console

from study_cases import compared
from tepui.data import Digits
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP
from tepui.report import printed_table, write_report
from tepui.report.loading import load_reports


def test_they_are_printed_and_on_the_page(tmp_path):
    test = Digits(train=False).subset(range(40))
    comparison = compared(
        [DeepEnsemble(), SAM(rho=0.1)],
        lambda: MLP(hidden=(8,)),
        Digits().subset(range(64)),
        test,
        metrics={
            "steep_[b]": lambda logits, labels: 1.25,
            "never": lambda logits, labels: float("nan"),
        },
        members=2,
        ensembles=1,
        epochs=1,
        progress="none",
        out=tmp_path / "run",
    )
    console = Console(file=io.StringIO(), width=200)
    console.print(printed_table(comparison))
    lines = console.file.getvalue().splitlines()
    assert sum("steep [b]" in line and "never" in line for line in lines) == 1
    rows = [line for line in lines if "1.250" in line]
    assert len(rows) == 2
    assert all(row.rstrip().endswith("–") for row in rows)  # noqa: RUF001 - a dash
    page = write_report(load_reports([tmp_path / "run"]), tmp_path).read_text()
    assert page.count("steep [b]</th>") == 1
    assert "<dt>steep [b]</dt><dd>a metric of your own</dd>" in page
