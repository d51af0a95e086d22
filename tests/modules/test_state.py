"""What tells modules apart does not depend on how torch prints them."""

import re

import pytest
from torch import nn

from tepui.modules.state import structure_digest


def normalizations(affine=True):
    return nn.Sequential(
        nn.BatchNorm2d(8, affine=affine),
        nn.GroupNorm(2, 8, affine=affine),
        nn.InstanceNorm1d(8, affine=affine),
        nn.LayerNorm(8, elementwise_affine=affine),
        nn.Linear(8, 2),
    )


def without_bias(kind):
    original = kind.extra_repr
    return lambda self: re.sub(", bias=(True|False)", "", original(self))


@pytest.mark.parametrize("affine", [True, False])
def test_a_torch_that_prints_less_of_normalizations(monkeypatch, affine):
    newer = structure_digest(normalizations(affine))
    for layer in normalizations()[:4]:
        kind = type(layer)
        monkeypatch.setattr(kind, "extra_repr", without_bias(kind))
    assert ", bias=" not in repr(normalizations(affine)[:4])
    assert structure_digest(normalizations(affine)) == newer


def test_other_layers_are_told_apart():
    digests = {structure_digest(normalizations(affine)) for affine in (True, False)}
    frozen = normalizations()
    frozen[0].weight.requires_grad = False
    digests |= {structure_digest(frozen), structure_digest(normalizations()[:4])}
    assert len(digests) == 4


def test_a_layer_without_bias_is_another_where_torch_says_so():
    assert structure_digest(nn.LayerNorm(8, bias=False)) != structure_digest(
        nn.LayerNorm(8)
    )
