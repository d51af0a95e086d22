"""Measuring all members in one call."""

import json
import math
from functools import partial

import pytest
import torch
from torch import nn

import tepui
from tepui.sharpness import average_case, fisher_rao, hessian_eigenvalues, worst_case


def ensemble(members=3):
    return tepui.Ensemble.build(lambda: nn.Linear(5, 3), members=members, seed=1)


def classified(samples=40):
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 5, generator=stream)
    return tepui.data.Arrays(x, torch.randint(3, (samples,), generator=stream))


def test_every_member_is_measured_as_on_its_own():
    members, data = ensemble(), classified()
    actual = tepui.measure(members, data, fisher_rao)["fisher_rao"]
    single = [fisher_rao(member, data) for member in members.members]
    assert actual.members == tuple(single)
    values = torch.tensor([one.value for one in single], dtype=torch.float64)
    assert actual.mean == pytest.approx(float(values.mean()))
    assert actual.standard_error == pytest.approx(float(values.std()) / 3**0.5)


def test_equal_members_meet_equal_draws():
    members = ensemble(2)
    members.members[1].load_state_dict(members.members[0].state_dict())
    measure = partial(average_case, num_draws=3, num_samples=10)
    actual = tepui.measure(members, classified(), measure)["average_case"]
    assert actual.standard_error == 0
    other = tepui.measure(members, classified(), measure, seed=1)["average_case"]
    assert other.mean != actual.mean


def test_several_values_are_numbered_and_names_may_be_given():
    actual = tepui.measure(
        ensemble(1),
        classified(),
        {
            "box": partial(worst_case, rho=[0.1, 0.2], norm="linf", num_steps=3),
            "ball": partial(worst_case, rho=0.1, num_steps=3),
            "top": partial(hessian_eigenvalues, num_eigenvalues=1),
        },
    )
    assert list(actual) == ["box[0]", "box[1]", "ball", "top"]
    assert math.isnan(actual["ball"].standard_error)
    text = json.dumps(actual["ball"].document(), allow_nan=False)
    assert json.loads(text)["standard_error"] is None
