"""Executors as the command line names them."""

import pytest

from tepui.cli.main import main
from tepui.cli.values import checked
from tepui.studies.executors import Ray, Slurm

RECIPE = ["reproduce", "sharpbalance/figure7d", "--size", "smoke"]


def test_an_executor_is_a_value_with_its_options():
    read = checked("Ray(address=10.0.0.1:6379, gpus=0.5)", "executor").read()
    assert read == Ray(address="10.0.0.1:6379", gpus=0.5)
    assert checked("Slurm(partition=short)", "executor").read() == Slurm(
        partition="short"
    )


@pytest.mark.parametrize(
    ("library", "words", "message"),
    [
        ("ray", ["Ray(address=127.0.0.1:1)"], "ray.address must be that of"),
        ("submitit", ["Slurm"], "Slurm was not found"),
        (None, ["Slurm(minutes=0)"], "slurm.minutes must be positive"),
        (None, ["Processes", "--retries", "-1"], "retries must not be negative"),
        (None, ["dask"], "executor must be one of Processes, Ray, Slurm, got 'dask'"),
        (None, ["mine.Own"], "executor must be one of Processes, Ray, Slurm, got"),
    ],
    ids=["ray", "slurm", "minutes", "retries", "unknown", "own"],
)
def test_mistakes_end_in_a_message(
    library, words, message, tmp_path, monkeypatch, capsys
):
    if library:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*RECIPE, "--executor", *words])
    assert ended.value.code == (1 if library == "submitit" else 2)
    assert message in " ".join(capsys.readouterr().err.split())
    assert not [*tmp_path.rglob("run.json")]
