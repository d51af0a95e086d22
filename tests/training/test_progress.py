import io
import sys

import pytest

from tepui.methods import A2D, SAM, SED
from tepui.training import MultiStep
from tepui.training.history import EpochRecord
from tepui.training.progress import counting, showing
from training.cases import fitted, images

RECORD = EpochRecord(
    epoch=1,
    loss=(1.0, 2.0),
    learning_rate=(0.1, 0.1),
    validation_loss=(3.0, 4.0),
    seconds=2.0,
    samples_per_second=12345.6,
)


def test_lines_say_epoch_losses_rate_and_speed(capsys):
    with showing("lines", "SAM", epochs=5, steps=100) as shown:
        shown.advance(20)
        shown.epoch_ended(RECORD)
    expected = (
        "SAM: epoch 2/5  loss 1.5000  validation 3.5000  lr 0.1  12,346 samples/s\n"
    )
    assert capsys.readouterr() == ("", expected)


def test_members_that_disagree_on_unlabeled_data_come_with_a_remark(capsys):
    fitted(images(), method=A2D(), epochs=1, unlabeled=images(), progress="lines")
    remark, epoch = capsys.readouterr().err.splitlines()
    assert remark.startswith("A2D: ")
    assert "only labeled samples of the kind can tell" in remark
    assert epoch.startswith("A2D: epoch 1/1")
    fitted(images(), method=A2D(), epochs=1, unlabeled=images(), progress="none")
    assert capsys.readouterr().err == ""


def test_members_that_learn_in_turns_come_with_a_remark(capsys):
    fitted(images(), method=SED(active=2), members=4, epochs=1, progress="lines")
    remark, _ = capsys.readouterr().err.splitlines()
    assert remark == (
        "SED: each step trains 2 of 4 members, so that a member makes 50% of a deep "
        "ensemble's updates; for as many, train 2 times the epochs"
    )
    for method in (SED(main="all", active=2), SED(active=4)):
        fitted(images(), method=method, members=4, epochs=1, progress="lines")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("SED: epoch")


def test_a_bar_shows_title_share_and_figures(capsys):
    fitted(images(), method=SAM(), schedule=MultiStep(), progress="bar")
    shown = capsys.readouterr().err
    for part in ("SAM", "100%", "loss", "lr 0.001", "samples/s"):
        assert part in shown


@pytest.mark.parametrize(("terminal", "expected"), [(True, "%"), (False, "epoch 2/5")])
def test_auto_draws_a_bar_on_a_terminal_only(monkeypatch, terminal, expected):
    written = io.StringIO()
    written.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", written)
    with showing("auto", "SAM", epochs=5, steps=10) as shown:
        shown.epoch_ended(RECORD)
    assert expected in written.getvalue()


def test_work_is_counted_in_tenths(capsys):
    with counting("lines", "features of 40 samples", 40) as advance:
        assert capsys.readouterr().err == ""
        for _ in range(5):
            advance(8)
    shown = capsys.readouterr().err.splitlines()
    assert shown == [f"features of 40 samples: {n} %" for n in (20, 40, 60, 80, 100)]


@pytest.mark.parametrize("style", ["none", "bar"])
def test_nothing_is_shown_of_what_was_never_begun(style, capsys):
    with counting(style, "features", 10):
        pass
    assert capsys.readouterr().err == ""
    with counting(style, "features", 10) as advance:
        advance(10)
    assert ("features" in capsys.readouterr().err) == (style == "bar")
