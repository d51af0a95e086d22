"""Unfamiliar data in an evaluation: found by the scores of their logits, and kept."""

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch.utils.data import Dataset, Subset

import tepui
from tepui import metrics
from tepui.data import Arrays, Digits, Normalize, UniformNoise

TEST = Digits(train=False).subset(range(60))
OOD = {
    "uniform": UniformNoise(num_samples=50, like=TEST),
    "gauss": UniformNoise(num_samples=30, like=TEST, seed=1),
}


@pytest.fixture(scope="module")
def ensemble():
    return tepui.Ensemble.build(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), members=3, seed=13
    )


@pytest.fixture(scope="module")
def evaluated(ensemble, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ood")
    return tepui.evaluate(ensemble, TEST, ood=OOD, out=folder, batch_size=17), folder


def test_every_score_on_every_set_equals_scikit_learn(ensemble, evaluated):
    actual, _ = evaluated
    assert list(actual.ood) == list(OOD)
    clean = metrics.ood_scores(ensemble.logits(TEST.prepare(TEST.inputs)))
    for name, data in OOD.items():
        far = metrics.ood_scores(ensemble.logits(data.prepare(data.inputs)))
        labels = [0] * len(TEST) + [1] * len(data)
        assert actual.ood[name].keys() == far.keys()
        for score, detection in actual.ood[name].items():
            scores = torch.cat([clean[score], far[score]]).detach().numpy()
            assert detection.samples == len(data)
            assert detection.auroc == pytest.approx(roc_auc_score(labels, scores), 1e-5)
            expected = average_precision_score(labels, scores)
            assert detection.aupr == pytest.approx(expected, 1e-5)
            assert 0 <= detection.fpr95 <= 1


class Plain(Dataset):
    """Yields what a model sees, with a label that no class has."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((1, 8, 8), float(index)), -7


def test_random_draws_of_a_set_leave_global_generators_alone(ensemble):
    class Random(Plain):
        def __getitem__(self, index):
            return torch.rand(1, 8, 8), 0

    before = torch.get_rng_state()
    first = tepui.evaluate(ensemble, TEST, ood={"far": Random()})
    assert torch.equal(torch.get_rng_state(), before)
    assert first.ood == tepui.evaluate(ensemble, TEST, ood={"far": Random()}).ood


OTHER = Normalize((0.5,), (0.5,))


@pytest.mark.parametrize(
    ("ood", "message"),
    [
        (TEST, r"^ood must be a mapping or None"),
        ({3: TEST}, r"^ood must map names to data sets, got 3"),
        ({"": TEST}, r"^ood must map names to data sets, got ''"),
        ({"mistakes": TEST}, r"^ood must name no data as tables call the mistakes"),
        ({"none": Subset(TEST, [])}, r"^ood\['none'\] must hold at least one"),
        ({"noise": UniformNoise(4)}, r"ood\['noise'\] must have inputs of shape "),
        ({"noise": UniformNoise(4)}, r"\(1, 8, 8\) like .* got \(3, 32, 32\); bring "),
        (
            {"far": Arrays(TEST.inputs, TEST.targets, OTHER)},
            r"^ood\['far'\] must have normalization .*0\.3053.*got .*0\.5.*prepared",
        ),
        (
            {"far": Subset(Arrays(TEST.inputs, TEST.targets), [0])},
            r"^ood\['far'\] must have normalization .* got none",
        ),
        ({"far": [(torch.zeros(1, 8, 8),)]}, r"dataset must yield pairs"),
        (
            {"far": Arrays({"a": torch.zeros(2, 3)}, torch.zeros(2))},
            r"inputs of shape \(1, 8, 8\) .* got \['a'\]",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(
    ensemble, ood, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        tepui.evaluate(ensemble, TEST, ood=ood, out=tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
