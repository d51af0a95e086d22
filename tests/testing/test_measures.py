"""Every promise of a measure is noticed when it is broken."""

import contextlib
import itertools

import pytest
import torch

from tepui.losses import cross_entropy
from tepui.modules import undisturbed
from tepui.sharpness import Measurement, fisher_trace, mean_of, select
from tepui.testing import check_measure


def mean_loss(
    model,
    data,
    *,
    loss=cross_entropy,
    generator=None,
    batch_size=24,
    block=undisturbed,
    settings=None,
):
    """Measure the mean loss, in a way that can be broken."""
    batches = select(model, data, loss, batch_size=batch_size, generator=generator)
    with block(model), torch.no_grad():
        values = [loss(_outputs(model, batch), batch.targets) for batch in batches]
    named = {"measure": "mean_loss", **batches.sizes}
    return mean_of(torch.cat(values), named if settings is None else settings)


def _outputs(model, batch):
    named = isinstance(batch.inputs, dict)
    return model(**batch.inputs) if named else model(batch.inputs)


def number(model, data, **options):
    return mean_loss(model, data, **options).value


def training(model, data, **options):
    return mean_loss(model, data, block=contextlib.nullcontext, **options)


def stuck(model, data, **options):
    @contextlib.contextmanager
    def block(model):
        model.eval()
        yield

    return mean_loss(model, data, block=block, **options)


def failing(model, data, **options):
    """Restores modes only where nothing fails."""

    @contextlib.contextmanager
    def block(model):
        modes = [(part, part.training) for part in model.modules()]
        model.eval()
        yield
        for part, mode in modes:
            part.training = mode

    return mean_loss(model, data, block=block, **options)


def unnamed(model, data, **options):
    return mean_loss(model, data, settings={"samples": 24}, **options)


def unwritable(model, data, **options):
    settings = {"measure": "x", "samples": torch.tensor(24)}
    return mean_loss(model, data, settings=settings, **options)


def infinite(model, data, **options):
    found = mean_loss(model, data, **options)
    return Measurement(float("inf"), 0.0, found.settings)


def noisy(model, data, *, generator=None, **options):
    found = mean_loss(model, data, generator=generator, **options)
    drawn = torch.rand((), generator=generator)
    return Measurement(found.value + float(drawn), 0.0, found.settings)


CALLS = itertools.count()


def jumping(model, data, **options):
    """Gives another value at every call."""
    found = mean_loss(model, data, **options)
    return Measurement(found.value + next(CALLS), 0.0, found.settings)


def by_batches(model, data, *, batch_size=24, **options):
    found = mean_loss(model, data, batch_size=batch_size, **options)
    size = found.settings["batch_size"]
    return Measurement(found.value / size, 0.0, found.settings)


BROKEN = {
    number: "return a Measurement or several, got float",
    training: "leave the model as it was|leave global ones alone",
    stuck: "leave the model as it was .*other modes",
    failing: "also where the loss fails, must leave the model as it was",
    unnamed: "name itself",
    unwritable: "have settings that JSON can hold",
    infinite: "measure a finite float",
    noisy: "leave global ones alone, got draws from that of torch|without a generator",
    jumping: "give the same value for the same generator",
    by_batches: "in batches of any size",
}


@pytest.mark.parametrize("measure", BROKEN, ids=lambda measure: measure.__name__)
def test_a_broken_promise_is_named(measure):
    with pytest.raises(AssertionError, match=BROKEN[measure]) as raised:
        check_measure(measure)
    assert str(raised.value).startswith(measure.__name__)


@pytest.mark.parametrize(
    "measure", [lambda model: 1.0, lambda model, dataset: 1.0, "fisher_trace"]
)
def test_a_measure_is_called_with_a_model_and_data(measure):
    message = r"must be callable as measure\(model, dataset, loss=.*got TypeError"
    with pytest.raises(AssertionError, match=message):
        check_measure(measure)


@pytest.mark.slow
def test_kept_promises_pass():
    check_measure(mean_loss)
    check_measure(fisher_trace)
    check_measure(by_batches, depends_on_batches=True)
