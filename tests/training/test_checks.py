"""Every wrong argument is named with its rule and value, and nothing is left behind."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import tepui
from tepui.data import Arrays, AugMix, Normalize, TrivialAugment
from tepui.losses import BinaryCrossEntropy, binary_cross_entropy
from tepui.methods import (
    A2D,
    SAM,
    SED,
    DeepEnsemble,
    DivDis,
    MemberMethod,
    SharpBalance,
)
from tepui.training.checks import absent_remark, few_of
from training.cases import CLASSES, Plain, fitted, images, linear, mlp, numbers

BUILT = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(4), 0


class CountedStream(Stream):
    def __len__(self):
        return 1


class Empty(Dataset):
    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise IndexError


@dataclass(frozen=True, kw_only=True)
class Scaled(MemberMethod):
    factor: float = 1.0
    factors: Mapping[str, float] = field(default_factory=dict)

    def gradient(self, member, batch):
        return member.gradient(batch)


def scaled_loss(outputs, targets, scale=1.0):
    return scale * nn.functional.cross_entropy(outputs, targets, reduction="none")


def mean_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"epochs": "3"}, "epochs must be an integer, got '3'"),
        ({"workers": -1}, "workers must be non-negative, got -1"),
        ({"optimizer": "SGD"}, "optimizer must be callable, got 'SGD'"),
        ({"optimizer": BUILT}, "optimizer must be callable, got"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer must make its step without a cl"),
        ({"method": SED(), "accumulate": 2}, "accumulate must be 1 with SED, got 2"),
        ({"method": SED(), "offload": True}, "offload must be False with SED"),
        ({"method": SED(), "epochs": 4, "part_at": 1}, "part_at must be None with SED"),
        ({"schedule": float}, r"schedule must be a schedule, such as Cosine\(\)"),
        ({"clip_norm": math.inf}, "clip_norm must be a finite number or None, got inf"),
        ({"augment": [1]}, r"augment must be a sequence \(each of type Augmentation\)"),
        ({"prune": 0.9}, "prune must be of type Prune or None, got 0.9"),
        ({"deterministic": "no"}, "deterministic must be True or False, got 'no'"),
        ({"loss": tepui.losses.CrossEntropy}, "loss must be an instance, such as"),
        (
            {"precision": "float16"},
            "precision must be one of auto, float32, tf32, bfloat16, got 'float16'",
        ),
        ({"runner": "graphs"}, "runner must be one of .*did you mean 'graph'"),
        ({"runner": "graph"}, 'runner must be "auto" or "eager", since .* got'),
        ({"progress": "bars"}, "progress must be one of .*did you mean 'bar'"),
        (
            {"method": SAM(rho=(0.1, 0.2, 0.3))},
            r"rho must have one value per member \(2\), got 3",
        ),
        (
            {"optimizer": tepui.SGD(lr=(0.1, 0.2, 0.3))},
            r"lr must have one value per member \(2\), got 3",
        ),
    ],
)
def test_wrong_arguments_are_named_and_leave_no_folder(how, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), mlp, out=tmp_path / "run", **how)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Stream(), "dataset must be map-style .*, got Stream"),
        (CountedStream(), "dataset must be map-style .*, got CountedStream"),
        (
            iter([(torch.zeros(4), 0)]),
            "dataset must be map-style .*, got list_iterator",
        ),
        (
            DataLoader(TensorDataset(torch.zeros(3, 4), torch.zeros(3))),
            r"got DataLoader; give the data set that it loads \(loader.dataset\)",
        ),
        (
            (torch.zeros(3, 4), torch.zeros(3)),
            r"pairs \(x, y\), got Tensor at index 0; tepui.data.Arrays\(",
        ),
        (torch.zeros(3, 4), r"got Tensor; tepui.data.Arrays\(inputs, targets\)"),
        (Empty(), "dataset must hold at least one sample, got "),
        (
            TensorDataset(torch.zeros(0, 4), torch.zeros(0)),
            "dataset must hold at least one sample, got ",
        ),
        (
            Arrays(torch.zeros(2, 4), torch.tensor([0, CLASSES])),
            r"labels must lie in \[0, 2\] for 3 outputs, got 'values from 0 to 3'",
        ),
        (
            Plain(Arrays(torch.zeros(4, 4), torch.tensor([0, 0, 0, CLASSES]))),
            r"labels must lie in \[0, 2\] for 3 outputs, got 'values from 0 to 3'",
        ),
    ],
)
def test_wrong_data_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        fitted(data, linear)


@pytest.mark.parametrize(
    ("classes", "got"), [((), "1"), (("cat", "dog", "cow"), "dog")]
)
def test_one_class_is_refused_before_a_folder_is(classes, got, tmp_path):
    one = Arrays(torch.randn(6, 4), torch.ones(6).long(), classes=classes)
    rule = f"labels must hold at least two classes, got 'only class {got}'"
    with pytest.raises(ValueError, match=rule):
        fitted(one, linear, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.half, list])
def test_features_of_any_type_train_as_they_are_predicted(change):
    data = numbers()
    inputs = (4 * data.inputs).round()
    plain = fitted(Arrays(inputs, data.targets), mlp)
    given = change(inputs) if change is not list else inputs.long()
    run = fitted(Arrays(given, data.targets), mlp)
    assert run.history[-1].loss == plain.history[-1].loss
    expected = plain.ensemble.predict(inputs[:3]).probs
    assert torch.equal(run.ensemble.predict(given[:3]).probs, expected)


def test_a_loss_must_return_one_value_per_sample():
    message = re.escape(
        "per sample (8,), as torch's losses do with reduction='none', got ()"
    )
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), linear, loss=mean_loss)


def test_a_member_must_have_something_to_train():
    def frozen():
        return linear().requires_grad_(False)

    message = "member 0 must have trainable parameters, got 'none'"
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), frozen)


def remove(members):
    del members[0]


def add(members):
    members.append(linear())


@pytest.mark.parametrize("change", [remove, add])
def test_members_that_have_lost_their_seeds_are_not_trained(change):
    ensemble = tepui.Ensemble.build(linear, 3)
    change(ensemble.members)
    count = len(ensemble)
    rule = rf"^seeds must be as many as the members \({count}\); ensemble.subset keeps"
    with pytest.raises(ValueError, match=rule):
        tepui.fit(ensemble, numbers(), method=DeepEnsemble(), epochs=1, progress="none")


def flat_images():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES))


@pytest.mark.parametrize("wrap", [lambda data: data, list], ids=["tensors", "loaded"])
@pytest.mark.parametrize("policy", [TrivialAugment(), AugMix()], ids=repr)
def test_standardized_images_cannot_be_bytes(tmp_path, wrap, policy):
    data = images()
    standard = Arrays(4 * data.inputs - 2, data.targets)
    how = {"augment": [policy], "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"images must lie in \[0, 1\] to be rounded"):
        fitted(wrap(standard), flat_images, **how)
    assert not (tmp_path / "run").exists()
    normalized = Arrays(data.inputs, data.targets, Normalize((0.5,), (0.2,)))
    assert fitted(normalized, flat_images, **how).path.exists()


def several_hot(labels):
    return (nn.functional.one_hot(labels, 3) + nn.functional.one_hot(0 * labels, 3)) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: several_hot(y).float(), "rows that sum to 1 to 2"),
        (
            lambda y: several_hot(y).long(),
            "BinaryCrossEntropy fits several labels of each",
        ),
        (lambda y: y[:, None], r"of shape \(samples,\), or probabilities"),
    ],
)
def test_targets_that_do_not_fit_are_refused_with_the_loss_that_would(
    change, message, tmp_path
):
    data = Arrays(numbers().inputs, change(numbers().targets))
    with pytest.raises(ValueError, match=f"labels must be integers.*{message}"):
        fitted(data, mlp, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_soft_labels_are_probabilities():
    soft = nn.functional.one_hot(numbers().targets, 3) * 0.8 + 0.2 / 3
    assert fitted(Arrays(numbers().inputs, soft), mlp).history
    with pytest.raises(ValueError, match="labels must be integers"):
        fitted(Arrays(numbers().inputs, soft - 0.1), mlp)


def one_output():
    return nn.Linear(4, 1)


@pytest.mark.parametrize("loss", [BinaryCrossEntropy(), binary_cross_entropy])
@pytest.mark.parametrize(
    ("wrong", "values"), [((-1, 1), "-1, 1"), ((1, 2), "1, 2"), ((0, 2), "0, 2")]
)
@pytest.mark.parametrize("kind", [Arrays, lambda x, y: Plain(Arrays(x, y))])
def test_answers_that_are_no_yes_or_no_are_refused(kind, wrong, values, loss):
    x = numbers(8).inputs
    labels = torch.tensor([*wrong] * 4)
    with pytest.raises(ValueError, match=f"training data must be 0 or 1.*{values}'"):
        fitted(kind(x, labels), one_output, loss=loss)
    good = Arrays(x, torch.tensor([0, 1] * 4))
    with pytest.raises(ValueError, match=f"validation must be 0 or 1.*{values}'"):
        fitted(good, one_output, loss=loss, validation=kind(x, labels))
    fitted(Arrays(x, torch.rand(8)), one_output, loss=loss)


def test_classes_in_one_output_are_told_of_the_loss_for_it():
    data = Arrays(numbers(8).inputs, torch.tensor([0, 1] * 4))
    with pytest.raises(ValueError, match=r"one output is for tepui.losses.BinaryCross"):
        fitted(data, one_output)


def pixels():
    return Arrays(torch.randn(8, 1, 4, 4), torch.randint(0, 3, (8, 4, 4)))


@pytest.mark.parametrize("method", [SED(), A2D(), DivDis()])
def test_methods_that_compare_classes_refuse_pixels(method):
    unlabeled = pixels() if method.needs_unlabeled else None
    rule = f"for {type(method).__name__}, a class for each sample"
    with pytest.raises(ValueError, match=rule):
        fitted(pixels(), lambda: nn.Conv2d(1, 3, 1), method=method, unlabeled=unlabeled)


def test_sharpbalance_learns_classes_of_pixels():
    method = SharpBalance(switch_at=0.5)
    run = fitted(pixels(), lambda: nn.Conv2d(1, 3, 1), method=method, epochs=2)
    assert run.history[-1].epoch == 1


class Endless(Dataset):
    def __len__(self):
        return 10**12

    def __getitem__(self, index):
        return torch.full((3,), float(index)), 0


def test_two_samples_are_read_of_a_data_set_of_any_length():
    assert few_of(Endless(), []).inputs.tolist() == [[0.0] * 3, [1.0] * 3]


@pytest.mark.parametrize(
    ("labels", "names", "said"),
    [
        ([0, 1, 2], (), None),
        ([1, 2, 3], (), "has class 0, which members cannot learn; .* subtract 1 from"),
        ([2, 3, 4], (), "labels count from 0: subtract 2 from all"),
        (
            [1, 2],
            ("cat", "dog", "cow"),
            r"class 0 \('cat'\), which members cannot learn$",
        ),
        ([0, 20], (), "has class 1, which members cannot learn"),
    ],
)
def test_classes_without_samples_are_named(labels, names, said):
    found = absent_remark(torch.tensor(labels), 30, names)
    assert (found is None) == (said is None)
    assert said is None or re.search(said, found)


@pytest.mark.parametrize(("progress", "count"), [("lines", 1), ("none", 0)])
def test_a_run_says_it_beside_the_progress(progress, count, capsys):
    data = Arrays(torch.randn(12, 4), torch.arange(12) % 3 + 1)
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 4), members=1)
    tepui.fit(ensemble, data, method=SAM(), epochs=1, progress=progress)
    assert capsys.readouterr().err.count("no training sample has class 0") == count
