"""Labels that mean different things in two data sets are refused where they meet."""

import json
import shutil

import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Subset, TensorDataset

import tepui
from tepui.cli.main import main
from tepui.data import Arrays
from tepui.data.labels import checked_targets, class_names, same_classes
from tepui.methods import DeepEnsemble
from tepui.studies import compare

PETS, FARM = ("cat", "dog", "bird"), ("cat", "cow", "bird")


def data(classes=(), highest=2):
    labels = torch.arange(12) % (highest + 1)
    return Arrays(torch.randn(12, 4), labels, classes=classes)


def linear():
    return nn.Linear(4, 3)


def ensemble():
    return tepui.Ensemble.build(linear, members=2, seed=0)


def fit(train, **how):
    tepui.fit(
        ensemble(), train, method=DeepEnsemble(), epochs=1, progress="none", **how
    )


def test_names_come_from_the_set_that_a_subset_is_taken_from():
    assert class_names(Subset(Subset(data(PETS), [0, 1]), [0])) == PETS
    assert class_names(TensorDataset(torch.zeros(2), torch.zeros(2))) == ()


class Counted(TensorDataset):
    classes = 3


def test_a_number_of_classes_is_no_name():
    assert class_names(Counted(torch.zeros(2), torch.zeros(2))) == ()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (FARM, r"^test must have the classes of train \(1 is 'dog'\), got 'cow'"),
        (PETS[:2], r"^test must have the 3 classes of train, got '2 classes'"),
        ((*PETS, "cow"), r"^test must have the 3 classes of train, got '4 classes'"),
    ],
)
def test_other_names_are_refused(found, message):
    with pytest.raises(ValueError, match=message):
        same_classes("test", found, PETS, "train")


def test_validation_data_must_have_the_classes_of_the_training_data():
    fit(data(PETS), validation=data(PETS))
    with pytest.raises(ValueError, match=r"^validation must have .* got 'cow'"):
        fit(data(PETS), validation=data(FARM))
    with pytest.raises(ValueError, match=r"^labels of validation must lie in \[0, 2\]"):
        fit(data(), validation=data(highest=3))


def test_shifted_data_must_have_the_classes_of_the_test_data():
    members = ensemble()
    tepui.evaluate(members, data(PETS), shifted={("fog", 1): data(PETS)})
    message = r"^shifted\['fog', 1\] must have .*dataset \(1 is 'dog'\), got 'cow'"
    with pytest.raises(ValueError, match=message):
        tepui.evaluate(members, data(PETS), shifted={("fog", 1): data(FARM)})
    message = r"^labels of shifted\['fog', 1\] must lie in \[0, 2\]"
    with pytest.raises(ValueError, match=message):
        tepui.evaluate(members, data(), shifted={("fog", 1): data(highest=3)})


def test_held_out_data_must_have_the_classes_of_the_test_data():
    with pytest.raises(ValueError, match=r"^held_out must have .* got 'cow'"):
        tepui.aggregations(ensemble(), data(PETS), held_out=data(FARM))


def test_unfamiliar_data_may_have_any_classes():
    far = data(FARM, highest=3)
    found = tepui.evaluate(ensemble(), data(PETS), ood={"farm": far})
    assert found.ood["farm"]["pds"].samples == 12


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (data(FARM), r"^test must have .* \(1 is 'dog'\), got 'cow'"),
        (
            data(highest=3),
            r"^labels of test must lie in \[0, 2\] for 3 outputs, got .* 0 to 3",
        ),
    ],
)
def test_a_comparison_refuses_other_classes_before_it_trains(test, message, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        compare(
            [DeepEnsemble()], linear, data(PETS), test, out=out, members=2, epochs=1
        )
    assert not out.exists()


def test_the_command_line_knows_the_classes_of_a_run(tmp_path, capsys):
    for name, classes in {"pets": PETS, "farm": FARM}.items():
        for label in classes:
            folder = tmp_path / name / "train" / label
            folder.mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(folder / "0.png")
        shutil.copytree(tmp_path / name / "train", tmp_path / name / "test")

    def of(name):
        return ["--data", f"ImageFolder(path={tmp_path / name})"]

    out = tmp_path / "run"
    how = ["--model", "MLP(in_features=192)", "--members", "2"]
    how += ["--epochs", "1", "--out", str(out)]
    main(["train", *of("pets"), *how])
    config = json.loads((out / "run.json").read_text())["config"]
    assert config["data"]["classes"] == sorted(PETS)
    options = ["--corruptions", "none", "--overwrite"]
    main(["evaluate", str(out), *of("pets"), *options])
    with pytest.raises(SystemExit):
        main(["evaluate", str(out), *of("farm"), *options])
    expected = f"data must have the classes of {out} (2 is 'dog'), got 'cow'"
    assert expected in capsys.readouterr().err


def test_all_targets_that_are_held_are_checked_and_two_of_others():
    held = Arrays(torch.zeros(4, 2), torch.tensor([1, 0, 2, 7]))
    assert checked_targets(held) is held.targets
    assert checked_targets([held[row] for row in range(4)]).tolist() == [1, 0]
    assert checked_targets([held[3]]).tolist() == [7]
