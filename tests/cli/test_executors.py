"""Executors as the command line names them."""

import pytest

from tepui.cli.executors import executor_named
from tepui.cli.main import main
from tepui.studies.executors import Processes, Ray, Slurm

RECIPE = ["reproduce", "sharpbalance/figure7d", "--size", "smoke"]


def test_each_name_has_its_executor_with_its_options():
    ray, slurm = Ray(address="auto", gpus=0.5), Slurm(partition="short")
    named = [executor_named(name, ray, slurm) for name in ("processes", "ray", "slurm")]
    assert named == [Processes(), ray, slurm]


@pytest.mark.parametrize(
    ("library", "words", "message"),
    [
        ("ray", ["ray", "--ray.address", "127.0.0.1:1"], "ray.address must be that of"),
        ("submitit", ["slurm"], "slurm.cluster must name a cluster that this machine"),
        (None, ["slurm", "--slurm.minutes", "0"], "slurm.minutes must be positive"),
        (
            None,
            ["processes", "--retries", "-1"],
            "retries must not be negative",
        ),
        (None, ["dask"], "executor"),
    ],
    ids=["ray", "slurm", "minutes", "retries", "unknown"],
)
def test_mistakes_end_in_a_message(
    library, words, message, tmp_path, monkeypatch, capsys
):
    if library:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*RECIPE, "--executor", *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not [*tmp_path.rglob("run.json")]
