"""The theory on the command line."""

import pytest

from tepui.cli.main import main


def test_check_prints_the_largest_deviation(capsys):
    options = ["--n", "200", "--d", "20", "--subsets", "2", "--matrices", "4"]
    main(["theory", "check", *options])
    shown = capsys.readouterr().out
    assert "4 repetitions of 200 x 20" in shown
    assert "largest deviation:" in shown
    for quantity in ("diversity, Theorem 1", "sharpness, Theorem 2", "C, Theorem 2"):
        assert quantity in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "chek"),
        (["check", "--subsets", "9999"], "subsets must lie between 1 and n = 3000"),
        (["check", "--matrices", "1"], "matrices must be an integer of at least 2"),
        (["check", "--d", "0"], "d must be an integer of at least 1, got 0"),
        (["check", "--n", "0"], "n must be an integer of at least 1, got 0"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["theory", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
