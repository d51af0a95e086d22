"""Comparisons of images that are answered otherwise than by one class each."""

import re

import pytest
import torch
from torch import nn

from study_cases import compared
from tepui.data import Arrays
from tepui.evaluation.gallery import FILE, Gallery, read_gallery
from tepui.losses import MSE, BinaryCrossEntropy
from tepui.methods import A2D, SAM, SED, DeepEnsemble
from tepui.report import write_report
from tepui.report.loading import load_reports
from tepui.studies import compare

X = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
PIXELS = Arrays(X, (X[:, 0] > 0.5).long())


def of_pixels():
    return nn.Conv2d(1, 2, 3, padding=1)


def of_images(outputs):
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, outputs))


def mean_logit(logits, labels):
    return logits.mean()


CASES = {
    "pixels": (of_pixels, PIXELS.targets, {}, "mean_iou"),
    "labels": (
        of_images(2),
        (X[:, 0, 0, :2] > 0.5).long(),
        {"loss": BinaryCrossEntropy()},
        "mean_average_precision",
    ),
    "numbers": (of_images(1), X.mean((1, 2, 3)), {"loss": MSE()}, "rmse"),
}


@pytest.mark.filterwarnings("ignore:member .* may not have learned")
@pytest.mark.parametrize("kind", CASES)
def test_a_comparison_ends_with_its_page_and_without_pictures(tmp_path, kind):
    factory, targets, how, score = CASES[kind]
    data, far = Arrays(X, targets), Arrays(1 - X, targets)
    methods, out = [DeepEnsemble(), SAM(rho=0.05)], tmp_path / "run"
    settings = {"members": 2, "ensembles": 1, "epochs": 1, "batch_size": 8}
    settings |= {"ood": {"far": far}, "metrics": {"mean_logit": mean_logit}}
    settings |= {"progress": "none", "out": out, **how}
    comparison = compared(methods, factory, data, data, **settings)
    for method in comparison.methods:
        scores = method.ensembles[0].evaluation["clean"]
        assert {score, "mean_logit"} <= {*scores}
        folder = out / method.ensembles[0].folder
        assert (folder / FILE).is_file()
        assert read_gallery(folder) == Gallery()
    page = write_report(load_reports([out]), out).read_text()
    assert "Samples, and what members say" not in page
    assert "mean logit" in page
    again = compared(methods, factory, data, data, **settings, resume=True)
    for method, before in zip(again.methods, comparison.methods, strict=True):
        assert method.ensembles[0].evaluation == before.ensembles[0].evaluation


def test_probabilities_to_be_scored_are_refused_before_training(tmp_path):
    train = Arrays(X, torch.full((24, 2), 0.5))
    test = Arrays(X, torch.tensor([0.0, 0.5]).expand(24, 2))
    settings = {"members": 2, "ensembles": 1, "epochs": 1, "progress": "none"}
    settings |= {"loss": BinaryCrossEntropy(), "out": tmp_path / "run"}
    message = r"^labels of {} must be 0 or 1, to be scored, got 'values 0, 0\.5'"
    with pytest.raises(ValueError, match=message.format("test")):
        compare([DeepEnsemble()], of_images(2), train, test, **settings)
    clean, settings["shifted"] = Arrays(X, torch.ones(24, 2)), {"far": test}
    with pytest.raises(ValueError, match=message.format(r"shifted\['far'\]")):
        compare([DeepEnsemble()], of_images(2), train, clean, **settings)
    assert not (tmp_path / "run").exists()


def refused(methods, out, factory=of_pixels, data=PIXELS, **changes):
    settings = {"members": 2, "ensembles": 1, "epochs": 1, "progress": "none"}
    settings |= {"batch_size": 8, "out": out, **changes}
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the caller reads it
        compare(methods, factory, data, data, **settings)
    assert not out.exists()
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (SED(), "SED: .* classes (CrossEntropy) for SED, a class for each sample"),
        (A2D(), "A2D: .* for A2D, a class for each sample"),
        (SAM(rho=(0.1, 0.2, 0.3)), "SAM: rho must have one value per member (2), got"),
    ],
)
def test_a_method_that_cannot_run_is_refused_before_any_other_trains(
    method, said, tmp_path
):
    unlabeled = PIXELS if method.needs_unlabeled else None
    methods = [DeepEnsemble(), method]
    (line,) = refused(methods, tmp_path / "run", unlabeled=unlabeled)
    assert re.match(said.replace("(", r"\(").replace(")", r"\)"), line)


def test_data_that_a_method_needs_are_asked_for_before_any_other_trains(tmp_path):
    (said,) = refused([DeepEnsemble(), A2D()], tmp_path / "run")
    assert said.startswith("A2D: unlabeled must be a data set for A2D")
