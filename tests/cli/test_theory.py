"""The theory on the command line."""

import pytest

from refusals import refused
from tepui.cli.main import main
from tepui.theory import agreement


def test_check_prints_the_largest_deviation(capsys):
    main(["theory", "check", "--matrices", "4", "--seed", "2"])
    shown = capsys.readouterr().out
    largest = max(each.deviation.max() for each in agreement(matrices=4, seed=2))
    assert f"largest deviation: {largest:.2f} standard errors" in shown
    for quantity in ("diversity, Theorem 1", "sharpness, Theorem 2", "C, Theorem 2"):
        assert quantity in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "chek"),
        (["check", "--matrices", "1"], "matrices must be an integer of at least 2"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys):
    assert message in refused(["theory", *arguments], capsys)
