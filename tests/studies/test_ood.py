"""Comparisons with unfamiliar sets: what is kept, read back and measured again."""

import pytest
import torch

import tepui
from study_cases import compared, read_comparison
from tepui.data import Digits, UniformNoise, prepared_like
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP

TEST = Digits(train=False).subset(range(40))
COLORED = UniformNoise(num_samples=30, shape=(3, 16, 16))
OOD = {"noise": UniformNoise(num_samples=25, like=TEST), "colored": COLORED}


def small(out, **changes):
    settings = {"members": 2, "ensembles": 2, "seed": 5, "epochs": 1, "ood": OOD}
    settings |= {"batch_size": 32, "progress": "none", **changes}
    train, factory = Digits().subset(range(96)), lambda: MLP(hidden=(8,))
    methods = [DeepEnsemble(), SAM(rho=0.1)]
    return compared(methods, factory, train, TEST, out=out, **settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison") / "run"
    return small(out), out


def test_detections_of_each_ensemble_are_those_of_its_evaluation(finished):
    comparison, out = finished
    assert comparison.ood_sets == read_comparison(out).ood_sets == ("colored", "noise")
    method = comparison.methods[1]
    for trained in method.ensembles:
        ensemble = tepui.load(out / trained.folder)
        ood = {name: prepared_like(data, TEST) for name, data in OOD.items()}
        again = tepui.evaluate(ensemble, TEST, ood=ood).ood["colored"]["pds"]
        for measure, value in trained.evaluation["ood"]["colored"]["pds"].items():
            assert value == pytest.approx(getattr(again, measure))


def test_settings_tell_one_unfamiliar_set_from_another(finished, tmp_path):
    comparison, _ = finished
    about = comparison.settings["ood"]
    assert about["colored"]["samples"] == 30
    assert about["colored"]["normalize"] == about["noise"]["normalize"] is not None
    assert about["colored"]["sha256"] != about["noise"]["sha256"]
    out = tmp_path / "run"
    assert small(out, ood=None, ensembles=1).ood_sets == ()
    resumed = small(out, ensembles=1, resume=True)
    assert resumed.ood_sets == ("colored", "noise")
    stamp = (out / "SAM/0/evaluations/clean.json").stat().st_mtime_ns
    small(out, ensembles=1, resume=True)
    assert (out / "SAM/0/evaluations/clean.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("ood", "message"),
    [
        (TEST, "ood must map names to data sets, got Arrays"),
        (
            {"none": torch.utils.data.Subset(TEST, [])},
            r"ood\['none'\] must hold",
        ),
        ({"far": [(torch.zeros(3, 4), 0)]}, r"ood\['far'\] must have inputs of shape"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(ood, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        small(tmp_path / "run", ood=ood)
    assert not (tmp_path / "run").exists()
