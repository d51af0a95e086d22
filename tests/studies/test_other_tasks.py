"""Comparisons of images that are answered otherwise than by one class each."""

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.losses import MSE, BinaryCrossEntropy
from tepui.methods import SAM, DeepEnsemble
from tepui.report import write_report
from tepui.studies import compare, load_reports
from tepui.studies.gallery import FILE, read_gallery

X = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def of_pixels():
    return nn.Conv2d(1, 2, 3, padding=1)


def of_images(outputs):
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, outputs))


def mean_logit(logits, labels):
    return logits.mean()


CASES = {
    "pixels": (of_pixels, (X[:, 0] > 0.5).long(), {}, "mean_iou"),
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
    comparison = compare(methods, factory, data, data, **settings)
    for method in comparison.methods:
        scores = method.ensembles[0].evaluation["clean"]
        assert {score, "mean_logit"} <= {*scores}
        folder = out / method.ensembles[0].folder
        assert (folder / FILE).is_file()
        assert read_gallery(folder) == ()
    page = write_report(load_reports([out]), out).read_text()
    assert "Where members agree and differ" not in page
    assert "mean logit" in page
    again = compare(methods, factory, data, data, **settings, resume=True)
    assert again.methods == comparison.methods


def test_probabilities_to_be_scored_are_refused_before_training(tmp_path):
    train = Arrays(X, torch.full((24, 2), 0.5))
    test = Arrays(X, torch.tensor([0.0, 0.5]).expand(24, 2))
    settings = {"members": 2, "ensembles": 1, "epochs": 1, "progress": "none"}
    settings |= {"loss": BinaryCrossEntropy(), "out": tmp_path / "run"}
    message = r"^labels of test must be 0 or 1, to be scored, got 'values 0, 0\.5'"
    with pytest.raises(ValueError, match=message):
        compare([DeepEnsemble()], of_images(2), train, test, **settings)
    assert not [*tmp_path.rglob("*.safetensors")]
