"""What a measurement on selected batches depends on, and which samples they hold."""

import torch
from torch import nn

from tepui.data import Arrays
from tepui.losses import CrossEntropy, cross_entropy
from tepui.sharpness import select

MODEL = nn.Linear(3, 2)
DATA = Arrays(torch.randn(11, 3), torch.arange(11) % 2)


def test_settings_name_measure_and_loss_and_hold_options_and_sizes():
    batches = select(MODEL, DATA, cross_entropy, 4, 10)
    settings = batches.settings("mine", rho=0.1, norm="l2")
    assert list(settings.items()) == [
        ("measure", "mine"),
        ("loss", "cross_entropy"),
        ("rho", 0.1),
        ("norm", "l2"),
        ("samples", 10),
        ("batch_size", 4),
    ]


def test_a_loss_without_a_name_is_shown_with_its_options():
    loss = CrossEntropy(0.25)
    assert select(MODEL, DATA, loss, 4).settings("mine")["loss"] == repr(loss)
    assert "0.25" in repr(loss)


def test_without_a_generator_the_same_samples_are_drawn_and_not_the_first():
    first, again = (
        torch.cat([*select(MODEL, DATA, cross_entropy, 4, 5).rows]).tolist()
        for _ in range(2)
    )
    assert first == again == sorted({*first})
    assert len(first) == 5
    assert first != list(range(5))
