"""What ``tepui settings`` lists is what happens if nothing is set."""

import inspect

import pytest

from tepui.cli.further import settings_of
from tepui.cli.main import main
from tepui.evaluation.evaluate import evaluate
from tepui.studies import compare

SAME = {
    compare: ("logits_in", "retries", "threads", "device"),
    evaluate: ("logits_in", "batch_size", "workers", "rule"),
}


@pytest.mark.parametrize("function", SAME)
def test_listed_defaults_are_those_of_python(function):
    listed, taken = settings_of(function.__name__), inspect.signature(function)
    for name in SAME[function]:
        assert listed[name].default == taken.parameters[name].default, name


def test_metrics_of_one_name_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for file in ("first.py", "second.py"):
        (tmp_path / file).write_text("def score(logits, labels): return 0.0")
    metrics = "metrics=[first.py:score, second.py:score]"
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--set", metrics, "corruptions=none"])
    assert not (tmp_path / "runs").exists()
    assert "metrics must name functions of different names" in capsys.readouterr().err
