import pytest

from tepui.cli.known import known_names
from tepui.cli.parsing import (
    check_names,
    normalized,
    spelled,
    with_data_option,
    with_places,
)


@pytest.mark.parametrize(
    "written",
    [
        ["--seeds", "13", "17", "27"],
        ["--seeds", "13 17 27"],
        ["--seeds", "13,17,27"],
        ["--seeds", "[13, 17, 27]"],
        ["--seeds=13,17,27"],
        ["--seeds=13 17 27"],
    ],
)
def test_seeds_may_be_quoted_or_not(written):
    words = normalized(["train", *written, "--epochs", "3"])
    assert words == ["train", "--seeds", "[13, 17, 27]", "--epochs", "3"]


def test_flags_need_no_value():
    assert normalized(["--resume"]) == ["--resume", "true"]
    assert normalized(["--resume", "false"]) == ["--resume", "false"]
    assert normalized(["--quiet", "--out", "x"]) == ["--quiet", "true", "--out", "x"]


def test_dashes_and_underscores_are_the_same_in_options_only():
    assert normalized(["--batch-size=4"]) == ["--batch_size=4"]
    assert normalized(["--out", "a-b"]) == ["--out", "a-b"]


def test_known_names_hold_no_abstract_classes():
    known = known_names()
    assert known["--method"] == [
        "A2D",
        "DeepEnsemble",
        "DivDis",
        "GSAM",
        "SAM",
        "SED",
        "SharpBalance",
    ]
    assert "Model" not in known["--model"]
    assert {"ConvNet", "MLP", "WideResNet40x2", "timm"} <= set(known["--model"])
    assert {"CIFAR10", "Digits", "ImageFolder", "MRPC"} <= set(known["--data"])
    assert not {"Arrays", "ImageFiles", "UniformNoise"} & set(known["--data"])
    assert {"CIFAR10", "UniformNoise", "UnlabeledFolder"} <= set(known["--unlabeled"])
    assert not {"Arrays", "ImageFiles"} & set(known["--unlabeled"])
    assert known["--schedule"] == ["Constant", "Cosine", "MultiStep"]
    assert "RandomCrop" in known["--augment"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "SMA"], r"--method must be one of .*did you mean 'SAM'"),
        (["--methods", "[SAM, Nothing]"], r"--methods must be one of .*'Nothing'"),
        (["--model=ResNet"], r"--model must be one of .*did you mean 'ResNet18'"),
        (["--data", "digit"], r"did you mean 'Digits'"),
        (["--data", "cifra10"], r"did you mean 'CIFAR10' or 'CIFAR100'\?"),
    ],
)
def test_unknown_names_list_the_known_ones(words, message):
    with pytest.raises(ValueError, match=message):
        check_names(words)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["--data", "digits"], ["--data", "Digits"]),
        (["--data=cifar10"], ["--data=CIFAR10"]),
        (["--model", "wideresnet40X2"], ["--model", "WideResNet40x2"]),
        (["--methods", "sam", "GSAM"], ["--methods", "[SAM, GSAM]"]),
        (["--augment=randomcrop"], ["--augment", "[RandomCrop]"]),
        (["--optimizer", "sgd"], ["--optimizer", "SGD"]),
        (["--ood", "n=uniformnoise"], ["--ood", '{"n": "UniformNoise"}']),
        (["--data", "unheardof"], ["--data", "unheardof"]),
        (["--model", "mine.Net"], ["--model", "mine.Net"]),
        (["--out", "digits"], ["--out", "digits"]),
    ],
)
def test_the_case_of_letters_does_not_matter(written, expected):
    assert spelled(normalized(written)) == expected


def test_no_two_names_differ_by_case_alone():
    for names in known_names().values():
        assert len({name.lower() for name in names}) == len(names)


def test_known_names_pass():
    words = ["--methods", "[SAM, DeepEnsemble]", "--model", "ConvNet"]
    check_names(words)


def test_lists_of_mappings_stay_as_they_are():
    written = '[{"class_path": "SAM"}, {"class_path": "GSAM"}]'
    assert normalized(["--methods", written]) == ["--methods", written]


def test_options_of_the_default_model_need_no_name():
    words = normalized(["train", "--model.width", "4"])
    assert words == ["train", "--model", "ConvNet", "--model.width", "4"]
    for named in (["--model", "MLP"], ["--model=MLP"], ["--config", "mine.yaml"]):
        words = ["train", *named, "--model.width", "4"]
        assert normalized(words) == words


@pytest.mark.parametrize(
    ("reader", "words", "option"),
    [
        (with_places, ["train", "--data", "digits:foo"], "--data"),
        (with_places, ["train", "--validation=Digits:foo"], "--validation"),
        (with_data_option, ["predict", "run", "digits:foo"], "--data"),
        (with_data_option, ["corrupt", "digits:foo"], "--data"),
    ],
)
def test_a_place_of_data_that_have_none_is_refused(reader, words, option):
    said = f"{option} must name no folder, Digits takes none, got 'foo'"
    with pytest.raises(ValueError, match=said):
        reader(words)
