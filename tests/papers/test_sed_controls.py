"""SED's controls, quickly."""

import pytest
import torch

from tepui.data import Digits, UniformNoise
from tepui.methods import SED
from tepui.papers.ours.sed_controls import (
    EFFORTS,
    MEMBERS,
    RECIPE,
    VARIANTS,
    Drawn,
    Unfamiliar,
    enlarged_digits,
    evaluation_spec,
    extractor,
    heads,
)
from tepui.papers.recipe import Order
from tepui.papers.reproduce import reproduce
from tepui.studies.specifications import digest
from tepui.studies.store import Store

SMOKE = EFFORTS["smoke"]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sed_controls")
    store = Store(folder / "store", device="cpu")
    order = Order("smoke", methods=("deep ensemble", "SED", "SED, weight 0"))
    return reproduce("ours/sed_controls", RECIPE, order, store, folder / "out")


@pytest.mark.slow
def test_heads_learn_and_are_scored_within_range(smoke):
    learned = smoke.one(
        method="deep ensemble", metric="ensemble_accuracy", dataset="clean"
    )
    assert min(learned.values) > 0.3
    for record in smoke.find(metric="unique_predictions"):
        assert all(1 <= value <= MEMBERS for value in record.values)
    detected = smoke.find(metric="auroc")
    assert {record.dataset for record in detected} == {
        "inverted",
        "noise",
        "severity 1",
        "severity 5",
    }
    assert all(0 <= value <= 1 for record in detected for value in record.values)


def test_every_control_differs_from_what_it_controls():
    runs = [heads(SMOKE, variant, 0).digest for variant in VARIANTS.values()]
    assert len(set(runs)) == len(VARIANTS)


def test_variants_of_a_repetition_share_features_and_first_weights():
    runs = [heads(SMOKE, variant, 1) for variant in VARIANTS.values()]
    assert len({digest(run.data) for run in runs}) == 1
    assert len({run.seeds for run in runs}) == 1
    first, other = (extractor(SMOKE, seed).digest for seed in (1, 0))
    assert runs[0].data.extractor.digest == first != other


def test_every_head_of_sed_has_as_many_updates_as_elsewhere():
    for effort in EFFORTS.values():
        run = heads(effort, VARIANTS["SED"], 0)
        assert (
            run.training.epochs * run.training.method.active == effort.epochs * MEMBERS
        )


def test_the_controls_are_complete():
    sed = {
        (v.method.weight, v.method.alpha, v.label_smoothing)
        for v in VARIANTS.values()
        if isinstance(v.method, SED)
    }
    assert {(w, "active", s) for w in (0.0, 0.1) for s in (0.0, 0.5)} <= sed
    assert (0.1, "none", 0.0) in sed


def test_parts_share_no_image_and_others_have_no_label(tmp_path):
    store = Store(tmp_path, device="cpu")
    test = Drawn(Digits, False, (0, 200), 0)
    sources = [
        extractor(SMOKE, 0).data,
        heads(SMOKE, VARIANTS["SED"], 0).data.images,
        test,
    ]
    assert evaluation_spec(SMOKE, 0).test.images == test
    parts = [
        {tuple(image) for image in store.dataset(each).inputs.flatten(1).tolist()}
        for each in sources
    ]
    assert [len(part) for part in parts] == [800, 400, 200]
    assert len(set.union(*parts)) == 1400
    clean = store.dataset(test)
    inverted = Unfamiliar("inverted", test, 0).load(store)
    assert torch.allclose(inverted.inputs + clean.inputs, torch.ones(()))
    for kind in SMOKE.others:
        other = Unfamiliar(kind, test, 0).load(store)
        assert other.targets.unique().tolist() == [-1]
        assert other.normalize == clean.normalize


def test_digits_take_the_size_of_the_clothes():
    digits = enlarged_digits(UniformNoise(2, (1, 28, 28)))
    assert digits.inputs.shape == (1437, 1, 28, 28)
    assert digits.inputs.dtype == torch.uint8
    # Interpolation keeps the mean brightness.
    small = float(Digits().inputs.mean())
    assert float(digits.inputs.float().mean() / 255) == pytest.approx(small, abs=0.02)
