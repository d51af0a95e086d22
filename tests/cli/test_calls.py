"""Classes with arguments in one word: read as written, never executed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tepui.cli.calls import mapping_of, parted
from tepui.cli.main import main, read
from tepui.cli.parsing import normalized, spelled
from tepui.losses import Quantiles
from tepui.methods import GSAM, SAM, SED, SharpBalance
from tepui.training import AdamW, MultiStep
from tepui.training.described import to_jsonable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
).filter(lambda value: "inf" not in repr(value))


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["rho", "alpha", "score"]), VALUES))
def test_what_is_written_is_what_is_read(given_values):
    written = ", ".join(f"{name}={value!r}" for name, value in given_values.items())
    mapping = mapping_of(f"SAM({written})", "--methods")
    assert mapping == {"class_path": "SAM", "init_args": given_values}


@pytest.mark.parametrize(
    ("written", "methods"),
    [
        (
            ["SharpBalance(rho=0.05, fraction=0.3)"],
            [SharpBalance(rho=0.05, fraction=0.3)],
        ),
        (["sam", "gsam(rho=[0.05,0.1])"], [SAM(), GSAM(rho=(0.05, 0.1))]),
        (["[SAM, SharpBalance(rho=0.05)]"], [SAM(), SharpBalance(rho=0.05)]),
        (
            ["SED(base=GSAM(rho=0.1, alpha=0.2))"],
            [SED(base=GSAM(rho=0.1, alpha=0.2))],
        ),
        (["SAM()", "SAM(rho=0.2)"], [SAM(), SAM(rho=0.2)]),
        (["SAM(rho=0.1) GSAM"], [SAM(rho=0.1), GSAM()]),
        (["[SAM(rho=0.1), GSAM]"], [SAM(rho=0.1), GSAM()]),
        (["gsam, SAM(rho=(0.1, 0.2)),GSAM"], [GSAM(), SAM(rho=(0.1, 0.2)), GSAM()]),
    ],
)
def test_methods_take_arguments(written, methods):
    words = spelled(normalized(["compare", "--methods", *written, "--epochs", "1"]))
    found = [to_jsonable(method) for method in read(words)[1]["methods"]]
    assert found == [to_jsonable(method) for method in methods]
    assert read(words)[1]["epochs"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--methods", "GSAM", "test_calls_own.Way", "SAM(rho=0.1)"],
        ["--methods", "GSAM", "test_calls_own.Way()", "SAM(rho=0.1)"],
        ["--methods", "gsam", "--methods+", "test_calls_own.Way", "sam(rho=0.1)"],
        ["--methods=gsam", "--methods+=test_calls_own.Way", "--methods+=sam(rho=0.1)"],
    ],
)
def test_plain_names_and_ones_own_stand_beside_arguments(words, tmp_path, monkeypatch):
    own = "from tepui.methods import SAM\n\nclass Way(SAM):\n    pass\n"
    (tmp_path / "test_calls_own.py").write_text(own)
    monkeypatch.syspath_prepend(tmp_path)
    plain, way, called = read(spelled(normalized(["compare", *words])))[1]["methods"]
    assert to_jsonable([plain, called]) == to_jsonable([GSAM(), SAM(rho=0.1)])
    assert type(way).__name__ == "Way"


@pytest.mark.parametrize(
    "words", [["--method", "gsam(rho=0.3)"], ["--method=GSAM(rho=0.3)"]]
)
def test_one_method_takes_arguments_too(words):
    read_words = spelled(normalized(["train", *words, "--epochs", "1"]))
    values = read(read_words)[1]
    assert to_jsonable(values["method"]) == to_jsonable(GSAM(rho=0.3))
    assert values["epochs"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--loss", "quantiles(levels=[0.1, 0.9])"],
        ["--loss=Quantiles(levels=(0.1, 0.9))"],
    ],
)
def test_a_loss_takes_arguments_too(words):
    assert read(spelled(normalized(["train", *words])))[1]["loss"] == Quantiles(
        (0.1, 0.9)
    )


def test_so_do_optimizer_schedule_and_model():
    words = ["--optimizer", "AdamW(lr=0.01)", "--schedule=MultiStep(milestones=[0.3])"]
    words += ["--model", "mlp(hidden=[5])"]
    values = read(spelled(normalized(["train", *words])))[1]
    assert values["optimizer"] == AdamW(lr=0.01)
    assert values["settings"]["schedule"] == MultiStep(milestones=(0.3,))
    assert [p.shape[0] for p in values["model"]().parameters()] == [5, 5, 10, 10]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("SAM(0.1)", "--methods must be written NAME or 'NAME(argument=value, ...)'"),
        ("SAM(rho=0.1", "--methods must be written NAME or"),
        ("SAM(rho=0.1)x", "--methods must be written NAME or"),
        ("SAM(rho=1+1)", "--methods must be written NAME or"),
        ("SAM(rho=1j)", "--methods must be written NAME or"),
        ("SAM(rho=b'x')", "--methods must be written NAME or"),
        ("SAM(rho=...)", "--methods must be written NAME or"),
        ("SAM(rho=[1, [2j]])", "--methods must be written NAME or"),
        ("SAM(rho=1, rho=2)", "'NAME(argument=value, ...)', each argument once"),
        ("SED(base=SAM(rho=1, rho=2))", "each argument once"),
        ("SAM(rho=0.1))", "--methods must be written NAME or"),
        ("SAM(rho=0.1)) GSAM(", "--methods must be written NAME or"),
        ("SAM(rho=0.1)(x=2)", "--methods must be written NAME or"),
        ("SAM (rho=0.1)", "--methods must be written NAME or"),
        (f"SAM(rho={'9' * 6000})", f"got 'SAM(rho={'9' * 192}...'"),
        (f"SAM(rho=0x{'f' * 6000})", f"got 'SAM(rho=0x{'f' * 190}...'"),
        (f"SAM(rho={'a.' * 900}b)", "--methods"),
        ("SAM(**{})", "--methods must"),
        ("SAM(rho=[m for m in (1,)])", "--methods must be written NAME or"),
        ("SAM(rho=__import__('os').getpid())", "--methods must be written NAME or"),
        ("os.system(command='touch here')", "--methods must name a class"),
        ("SAM(rho=os.getpid)", "--methods.rho must be a number or several numbers"),
        ("Sharp(rho=1)", "--methods must be one of A2D, DeepEnsemble"),
        ("SAM(roh=1)", "methods.roh must be an argument of SAM"),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_runs(
    word, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["compare", "--methods", word, "--dry-run"])
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.text("ab()[]'\", \\", max_size=9)))
def test_parting_loses_nothing_but_blanks_and_commas(words):
    parts = parted(" ".join(words))
    signs = [" ".join(words), "".join(parts)]
    left = [text.replace(" ", "").replace(",", "") for text in signs]
    assert left[0] == left[1]
    assert all(parts)


def test_texts_keep_their_brackets_and_commas():
    words = ["A(x='a), b')", 'B(y="(")', "C(z=[1, 2])", "D"]
    assert parted(", ".join(words)) == words


@pytest.mark.slow
def test_a_comparison_trains_what_was_written(tmp_path):
    how = ["--members", "2", "--ensembles", "1", "--epochs", "1", "--sharpness", "0"]
    how += ["--model", "MLP", "--model.hidden", "[4]", "--corruptions", "none"]
    methods = ["SAM(rho=0.3)", "SharpBalance(rho=0.05)"]
    main(["compare", "--methods", *methods, *how, "--quiet", "--out", str(tmp_path)])
    for name, rho in (("SAM", 0.3), ("SharpBalance", 0.05)):
        run = json.loads((tmp_path / name / "0" / "run.json").read_text())
        assert run["config"]["method"]["rho"] == rho
