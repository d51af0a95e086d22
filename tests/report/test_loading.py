"""Which runs stand on one page, and which count as repetitions."""

import json
from dataclasses import asdict

import pytest

from study_cases import write_compared
from tepui.core.storage import seal, write_document
from tepui.report.loading import load_reports
from tepui.studies.results import Record, Results, write_results

TEST = {"class": "Digits", "samples": 100, "sha256": "a"}
ENVIRONMENT = {"command": "tepui train", "hardware": "abacus"}


def evaluation(about=None, **changes):
    scores = {"individual_accuracy": 0.8, "accuracy": 0.9, "improvement": 0.1}
    scores |= {"der": 0.5, "ece": 0.02, "nll": 0.4}
    bins = {"count": [0, 20], "confidence": [None, 0.5], "accuracy": [None, 0.6]}
    document = {
        "about": {"test": TEST, "cells": []} if about is None else about,
        "rule": "probability",
        "members": 2,
        "samples": 100,
        "clean": scores,
        "shifted": None,
        "severities": {},
        "cells": [],
        "reliability": {"clean": bins},
        **changes,
    }
    return {name: value for name, value in document.items() if value != "absent"}


def write_run(folder, seeds=(1, 2), method="SAM", rho=0.1, tested=None, **config):
    folder.mkdir(parents=True)
    asked = {"method": {"class": method, "rho": rho}, "seeds": seeds, "epochs": 4}
    asked |= {"models": [{"model": "MLP", "config": {}}], "threads": len(folder.name)}
    asked |= config
    document = {"config": asked, "environment": ENVIRONMENT}
    write_document(folder / "run.json", "run", document)
    written = evaluation() if tested is None else tested
    write_document(folder / "evaluations/clean.json", "evaluation", written)
    return folder


def write_comparison(folder, labels=("Plain", "SAM"), sharpness=None):
    for label in labels:
        run = write_run(folder / label / "0", method=label, seeds=[1, 2])
        if sharpness is not None:
            found = {"about": sharpness["about"], "found": {"worst_case": sharpness}}
            write_document(run / "sharpness.json", "measurement", found)
    runs = {label: [f"{label}/0"] for label in labels}
    write_compared(folder, runs, {"epochs": 4}, environment=ENVIRONMENT)
    return folder


def write_study(folder):
    record = Record(
        item="paper/figure1",
        dataset="digits",
        architecture="mlp",
        method="sam",
        metric="accuracy",
        value=97.0,
        unit="percent",
        n=1,
    )
    found = Results("paper/figure1", "a picture", "smoke", {}, ENVIRONMENT, (record,))
    write_results(folder, found)
    (folder / "figure.svg").write_text("<svg/>")
    return folder


def labels(found):
    return [method.label for method in found.comparison.methods]


def test_runs_that_differ_only_in_seeds_are_repetitions(tmp_path):
    found = load_reports(
        [
            write_run(tmp_path / "first", seeds=[1, 2]),
            write_run(tmp_path / "second", seeds=[3, 4]),
            write_run(tmp_path / "other", seeds=[1, 2], rho=0.2),
        ]
    )
    assert labels(found) == ["SAM (first and 1 more)", "SAM (other)"]
    both, one = found.comparison.methods
    assert [trained.seeds for trained in both.ensembles] == [(1, 2), (3, 4)]
    assert both.sources == (tmp_path / "first", tmp_path / "second")
    assert len(one.ensembles) == 1
    assert found.title == "3 runs side by side"


def test_a_method_of_ones_own_is_shown_without_its_module(tmp_path):
    found = load_reports([write_run(tmp_path / "run", method="mine.methods.Calm")])
    assert labels(found) == ["Calm"]


def test_the_same_seeds_are_no_repetition(tmp_path):
    paths = [write_run(tmp_path / name, seeds=[1, 2]) for name in ("a", "b")]
    with pytest.raises(ValueError, match=r"b must differ in its seeds from .*a, whose"):
        load_reports(paths)


@pytest.mark.parametrize(
    ("tested", "differs"),
    [
        (evaluation({"test": {**TEST, "sha256": "b"}, "cells": []}), "test.sha256"),
        (
            evaluation({"test": TEST, "cells": [["fog", 1]], "strength": "cifar"}),
            "cells.0.0, cells.0.1, strength",
        ),
        (evaluation(rule="vote"), "rule"),
        (evaluation("absent"), "test.class, test.samples, test.sha256"),
    ],
)
def test_runs_on_other_test_data_are_refused_with_what_differs(
    tmp_path, tested, differs
):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", tested=tested)]
    said = f"b must be on the same data as that in .*a; what differs, got '{differs}'"
    with pytest.raises(ValueError, match=said):
        load_reports(runs)


def unfamiliar(**sets):
    """An evaluation with unfamiliar data of these digests."""
    identities = {name: {"sha256": digest} for name, digest in sets.items()}
    found = evaluation({"test": TEST, "cells": [], "ood": identities})
    scores = {name: {"pds": {"auroc": 0.9}} for name in sets}
    return {**found, "ood": scores}


def test_only_unfamiliar_data_that_all_were_tested_on_are_shown(tmp_path):
    more = unfamiliar(noise="c", letters="d")
    runs = [
        write_run(tmp_path / "a", rho=0.1, tested=more),
        write_run(tmp_path / "b", rho=0.2, tested=unfamiliar(noise="c")),
    ]
    found = load_reports(runs)
    assert labels(found) == ["SAM (a)", "SAM (b)"]
    assert found.comparison.ood_sets == ("noise",)
    other = write_run(tmp_path / "c", rho=0.3, tested=unfamiliar(noise="other"))
    with pytest.raises(ValueError, match=r"what differs, got 'ood\.noise\.sha256'"):
        load_reports([*runs, other])


def test_a_comparison_and_a_run_stand_side_by_side(tmp_path):
    compared = write_comparison(tmp_path / "compared")
    run = write_run(tmp_path / "run", seeds=[1, 2])
    found = load_reports([compared, run])
    assert labels(found) == ["Plain", "SAM (compared)", "SAM (run)"]
    plain = found.comparison.methods[0]
    assert plain.ensembles[0].folder == str(compared / "Plain/0")
    assert found.sources[0].settings["methods"]["SAM"] == {"class": "SAM"}


def test_folders_of_one_name_are_told_by_their_paths(tmp_path):
    paths = [write_run(tmp_path / n / "run", rho=r) for n, r in (("a", 0), ("b", 1))]
    assert labels(load_reports(paths)) == [f"SAM ({path})" for path in paths]


def test_sharpness_measured_otherwise_is_left_out(tmp_path):
    def sharp(samples):
        return {"mean": 1.0, "about": {"options": {"num_samples": samples}}}

    few = write_comparison(tmp_path / "few", ["A"], sharp(10))
    many = write_comparison(tmp_path / "many", ["B"], sharp(100))
    alike = write_comparison(tmp_path / "alike", ["C"], sharp(10))
    for other, known in ((many, False), (alike, True)):
        assert load_reports([few, other]).comparison.has_sharpness == known


def test_results_of_a_study_come_with_their_picture(tmp_path):
    found = load_reports([write_study(tmp_path / "figure1")])
    assert found.comparison is None
    assert found.title == "a picture"
    (study,) = found.studies
    assert (study.picture, study.results.item) == ("<svg/>", "paper/figure1")
    (tmp_path / "figure1/figure.svg").unlink()
    assert load_reports([tmp_path / "figure1"]).studies[0].picture is None


def test_epochs_are_read_where_they_were_written(tmp_path):
    folder = write_run(tmp_path / "run")
    row = {"epoch": 0, "loss": [1.0], "learning_rate": [0.1], "validation_loss": []}
    row |= {"seconds": 2.0, "samples_per_second": 50.0}
    more = {"exchange_seconds": 0.5, "peak_memory": 7, "joint_loss": 1.5}
    scores = {"validation_accuracy": [0.5], "validation_rmse": [2.0]}
    lines = [row, {**row, "epoch": 1, **more, **scores}]
    file = folder / "metrics.jsonl"
    sealed = [json.dumps(seal("epoch", line)) + "\n" for line in lines]
    file.write_text("".join(sealed))
    (trained,) = load_reports([folder]).comparison.ensembles()
    assert [
        json.loads(json.dumps(asdict(record))) for record in trained.outcome.history
    ] == [
        {**row, **dict.fromkeys(more), **{name: [] for name in scores}}
        | {"exchange_seconds": 0.0},
        lines[1],
    ]
    file.write_text('{"epoch": 0')
    with pytest.raises(ValueError, match=r"line 1 of .*metrics\.jsonl must be a JSON"):
        load_reports([folder])


def test_an_ensemble_that_was_not_trained_here_has_its_folders_name(tmp_path):
    folder = write_run(tmp_path / "bought")
    (folder / "run.json").unlink()
    found = load_reports([folder])
    assert labels(found) == ["bought"]
    assert found.comparison.methods[0].training["epochs"] is None


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (
            lambda f: (f / "evaluations/clean.json").rename(f / "ensemble.safetensors"),
            FileNotFoundError,
            "not evaluated",
        ),
        (
            lambda f: (f / "evaluations/clean.json").unlink(),
            FileNotFoundError,
            "has not ended",
        ),
        (
            lambda f: write_document(f / "evaluations/clean.json", "evaluation", {}),
            ValueError,
            "must hold evaluations",
        ),
        (
            lambda f: (f / "evaluations/clean.json").write_text("{}"),
            ValueError,
            "must be of format",
        ),
        (lambda f: (f / "run.json").write_text("{}"), ValueError, "must be of format"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, spoil, error, message):
    folder = write_run(tmp_path / "run")
    spoil(folder)
    with pytest.raises(error, match=message):
        load_reports([folder])


def test_folders_must_be_named_once(tmp_path):
    folder = write_run(tmp_path / "run")
    with pytest.raises(ValueError, match="runs must name each folder once"):
        load_reports([folder, tmp_path / "x/../run"])
    with pytest.raises(ValueError, match="runs must name at least one folder"):
        load_reports([])
    with pytest.raises(FileNotFoundError, match="holds nothing to report"):
        load_reports([tmp_path])
