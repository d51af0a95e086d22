"""How long runs were trained and which weights they kept, on page and terminal."""

from dataclasses import replace

import pytest

from report_cases import comparison, shown, words
from tepui.cli.main import main
from tepui.report.run_ends import epochs_fact, epochs_of, kept_fact
from tepui.training import Run
from tepui.training.history import History, Outcome

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2"]
SMALL += ["--set", "progress=none"]
# No epoch gains so much: the run stops after its second.
STOPPED = ["--epochs", "6", "--validation", "0.3"]
STOPPED += ["--set", "early_stopping=EarlyStopping(patience=1, min_delta=1e6)"]


def entries(*ends_of_methods):
    group = shown(comparison()).group
    pairs = zip(group.entries, ends_of_methods, strict=True)
    return [replace(entry, outcomes=ends) for entry, ends in pairs]


def ended(epochs, stopped_by=None, best=()):
    return Outcome(History([None] * epochs), best, stopped_by=stopped_by)


def test_a_run_that_was_stopped_says_so_everywhere(tmp_path, capsys):
    run = tmp_path / "run"
    main(["train", *SMALL, *STOPPED, "keep=best", "--out", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert "stopped after 2 of 6 epochs by EarlyStopping" in said
    folder = Run.open(run)
    first, second = folder.kept
    losses = (folder.history[first - 1].loss[0], folder.history[second - 1].loss[1])
    shown_losses = ", ".join(f"{loss:.4f}" for loss in losses)
    assert f"(loss {shown_losses})" in said
    main(["evaluate", str(run), "--corruptions", "none"])
    main(["report", str(run)])
    page = words((run / "report.html").read_text())
    assert "2 of 6 epochs (stopped by EarlyStopping)" in page
    assert f"weights kept after {first} and {second} epochs" in page


def test_a_run_that_trained_all_epochs_says_their_number(tmp_path, capsys):
    run = tmp_path / "run"
    main(["train", *SMALL, "--epochs", "1", "--out", str(run)])
    assert "weights" not in capsys.readouterr().out
    main(["evaluate", str(run), "--corruptions", "none"])
    main(["report", str(run)])
    page = words((run / "report.html").read_text())
    assert " 1 epoch " in page
    assert "stopped by" not in page
    assert "kept after" not in page


@pytest.mark.slow
def test_the_page_of_a_comparison_says_it(tmp_path):
    both = tmp_path / "both"
    methods = ["corruptions=none", "--methods", "DeepEnsemble", "SAM"]
    main(["compare", *SMALL, *STOPPED, *methods, "--out", str(both)])
    page = words((both / "report.html").read_text())
    for planned in (12, 6):  # at equal gradients; in the heading and the table
        assert page.count(f" 2 of {planned} (stopped by EarlyStopping)") == 2


def test_ensembles_that_ended_apart_are_told_by_what_they_share():
    early = ended(2, "EarlyStopping", (0, 1))
    first, second = entries((early, ended(4)), (ended(3, "Mine"),))
    told = "2 to 4 of 4 (1 of 2 ensembles stopped by EarlyStopping)"
    assert epochs_of(first) == told
    assert epochs_of(second, "epoch") == "3 of 4 epochs (stopped by Mine)"
    both = f"epochs: Plain {told}, Flat 3 of 4 (stopped by Mine)"
    assert epochs_fact([first, second]) == both
    assert kept_fact([first]) == "weights kept after 1 and 2 epochs"
    assert kept_fact([second]) == ""
    assert kept_fact([first, first]) == "weights of each member's best epoch kept"


def test_plans_that_differ_or_are_unknown_are_not_told_as_one():
    first, second = entries((), ())
    assert epochs_fact([first, second]) == "4 epochs"
    longer = replace(second, training={"epochs": 5, "equal": "gradients"})
    assert epochs_fact([first, longer]) == "epochs: Plain 4, Flat 5"
    paid = replace(first, training={"epochs": 7, "equal": "gradients"})
    told = "epochs: Plain 7, Flat 5 at equal gradients"
    assert epochs_fact([paid, longer]) == told
    assert epochs_of(replace(second, training={})) == ""
