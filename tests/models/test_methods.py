"""Models train under methods: every kind of one with every kind of the other.

What goes wrong between the two hangs on what the model is made of and on the class of
the method: passes that BatchNorm notices, norms of gradients per sample and layer,
inputs in a dict, weights used twice. ``COVERING`` holds every class of methods with
every kind of model, every case of a method with BatchNorm, which the cases differ in,
and every model; the rest of the product is slow.
"""

import math
from itertools import product

import pytest
import torch

import tepui
from methods.test_contract import ALL, CASES
from models.cases import NAMES, built, data
from training.cases import one_thread

single = pytest.fixture(autouse=True)(one_thread)

BATCH_NORM = ["ResNet18", "ConvNet", "VGG19BN", "WideResNet40x2"]
OTHERS = {
    "text": ["Albert"],
    "layer norm": ["ViTTiny", "ViTSmall"],
    "no norm": ["MLP", "VGG19"],
}
COVERING = {
    (BATCH_NORM[row % len(BATCH_NORM)], case.method) for row, case in enumerate(ALL)
} | {
    (names[row % len(names)], cases[column % len(cases)].method)
    for column, names in enumerate(OTHERS.values())
    for row, cases in enumerate(CASES.values())
}
PAIRS = [
    pytest.param(*pair, marks=() if pair in COVERING else pytest.mark.slow)
    for pair in product(NAMES, [case.method for case in ALL])
]


def test_the_covering_pairs_leave_out_no_model_no_case_and_no_pair_of_kinds():
    kinds = {"batch norm": BATCH_NORM, **OTHERS}
    kind = {name: kind for kind, names in kinds.items() for name in names}
    assert kind.keys() == set(NAMES) == {name for name, _ in COVERING}
    assert {case.method for case in ALL} == {method for _, method in COVERING}
    met = {(kind[name], type(method).__name__) for name, method in COVERING}
    assert met == set(product(kinds, CASES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:member .* may not have learned")  # after one step
@pytest.mark.parametrize(("name", "method"), PAIRS, ids=str)
def test_trains_a_step(name, method):
    ensemble = tepui.Ensemble.build(lambda: built(name), members=2, seed=3)
    before = [
        {key: p.detach().clone() for key, p in member.named_parameters()}
        for member in ensemble.members
    ]
    run = tepui.fit(
        ensemble,
        data(name, samples=6),
        method=method,
        unlabeled=data(name, samples=4) if method.needs_unlabeled else None,
        epochs=2,
        batch_size=6,
        optimizer=tepui.SGD(lr=0.01),
        device="cpu",
        progress="none",
    )
    # A coupled member has no loss in an epoch that it sat out.
    losses = [
        loss for record in run.history for loss in record.loss if loss is not None
    ]
    assert losses
    assert all(map(math.isfinite, losses))
    for member, start in zip(ensemble.members, before, strict=True):
        same = [n for n, p in member.named_parameters() if torch.equal(p, start[n])]
        assert same == []
