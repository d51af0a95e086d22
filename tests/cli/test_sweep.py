"""Choosing hyperparameters on the command line."""

import json

import pytest

from tepui.cli.main import main


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


GRID = ["sharpbalance/figure7a", "--size", "smoke", "--grid", "rho=0.05,0.2"]


def test_a_sweep_writes_what_it_chose(place, capsys):
    main(["sweep", *GRID, "fraction=0.4,1", "--workers", "1"])
    shown = capsys.readouterr().out
    assert "1 searches, 4 ensembles, 0 trained, 16 member-epochs left" in shown
    folder = place / "sweeps" / "smoke" / "sharpbalance" / "figure7a"
    document = json.loads((folder / "sweep.json").read_text())
    (found,) = document["searches"]
    assert [cell["values"] for cell in found["cells"]] == [
        {"rho": rho, "fraction": share} for rho in (0.05, 0.2) for share in (0.4, 1)
    ]
    best = max(found["cells"], key=lambda c: (c["accuracy"], [-n for n in c["nll"]]))
    assert found["chosen"] == best["values"]
    assert (folder / "table.md").read_text().count("| * |") == 1
    with pytest.raises(SystemExit):
        main(["sweep", *GRID, "fraction=0.4,1"])
    assert "exists; pass overwrite" in capsys.readouterr().err
    main(["sweep", *GRID, "fraction=0.4,1", "--dry-run"])
    assert "4 trained, 0 member-epochs left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sharpbalance/figure7x", "--grid", "rho=1"], "near: sharpbalance/figure7a"),
        (["sharpbalance/figure6", "--grid", "rho=1"], "has no methods to vary"),
        (["sharpbalance/figure2", "--grid", "rho=1"], "recipe must train ensembles"),
        (["sharpbalance/table7"], "grid must name at least one hyperparameter"),
        (["sharpbalance/table7", "--grid", "rho"], "be written NAME=VALUE"),
        (["sharpbalance/table7", "--grid", "rho=0.1,"], "be written NAME=VALUE"),
        (
            ["sharpbalance/table7", "--grid", "rho=1", "rho=2"],
            "each hyperparameter once",
        ),
        (["sharpbalance/table7", "--grid=fration=1"], "did you mean 'fraction'"),
        (
            ["sharpbalance/table7", "--grid", "alpha=0.1", "fraction=0.4"],
            "{'alpha': ['GSAM'], 'fraction': ['SharpBalance']}",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(words, message, place, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "--size", "smoke", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not any(place.iterdir())
