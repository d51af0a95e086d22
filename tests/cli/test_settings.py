"""What ``tepui settings`` lists is what happens if nothing is set."""

import inspect
import re

import pytest

from refusals import refused
from tepui.cli.main import main
from tepui.cli.settings import form_of, settings_of
from tepui.core.names import PLACES, known
from tepui.core.spec import LATER, read
from tepui.evaluation.evaluate import evaluate
from tepui.studies import compare
from tepui.training import Run

SAME = {
    compare: ("logits_in", "retries", "threads", "device"),
    evaluate: ("logits_in", "batch_size", "workers", "rule"),
    Run.calibrate: ("batch_size", "workers", "rule"),
}


@pytest.mark.parametrize("function", SAME)
def test_listed_defaults_are_those_of_python(function):
    listed, taken = settings_of(function.__name__), inspect.signature(function)
    for name in SAME[function]:
        assert listed[name].default == taken.parameters[name].default, name


VALUES = [(kind, name) for kind in PLACES if kind not in LATER for name in PLACES[kind]]


@pytest.mark.parametrize(("kind", "name"), VALUES)
def test_what_is_shown_of_a_class_makes_what_its_name_makes(kind, name):
    item = known(kind, name)
    needed = "=..." in form_of(item)
    assert needed or read(form_of(item), kind) == item()


@pytest.mark.parametrize("name", ["Table", "from_timm", "ResNet18", "CutMix", "Slurm"])
def test_every_argument_of_a_class_is_shown_and_explained(name, capsys):
    main(["settings", name])
    shown = capsys.readouterr().out
    (kind,) = (kind for kind in PLACES if name in PLACES[kind])
    for argument in {*inspect.signature(known(kind, name)).parameters} - {"train"}:
        assert re.search(rf"^│ \**{argument} +│.*│ \S.* │$", shown, re.MULTILINE)


@pytest.mark.parametrize("kind", ["methods", "losses", "optimizer"])
def test_classes_of_a_kind_are_listed(kind, capsys):
    main(["settings", kind])
    shown = capsys.readouterr().out
    for name in PLACES[{"methods": "method", "losses": "loss"}.get(kind, kind)]:
        assert f"│ {name}(" in shown


def test_a_setting_shows_what_it_may_hold_and_a_mistake_the_nearest(capsys):
    main(["settings", "schedule"])
    assert "│ Cosine(warmup=0.0, final=0.0)" in capsys.readouterr().out
    main(["settings", "Table"])
    assert "Table(path=..., target=..., ignore=()" in capsys.readouterr().out
    assert "(did you mean 'SharpBalance'?)" in refused(
        ["settings", "ShapBalance"], capsys
    )


def test_optimizer_and_augmentations_go_by_set_in_every_command():
    for command in ("train", "compare", "sweep"):
        assert {"optimizer", "augment", "device"} <= settings_of(command).keys()


def test_metrics_of_one_name_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for file in ("first.py", "second.py"):
        (tmp_path / file).write_text("def score(logits, labels): return 0.0")
    metrics = "metrics=[first.py:score, second.py:score]"
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--set", metrics, "corruptions=none"])
    assert not (tmp_path / "runs").exists()
    assert "metrics must name each function once" in capsys.readouterr().err
