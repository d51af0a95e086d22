"""What every model of tepui must do."""

import json

import pytest
import torch

from models.cases import CASES, NAMES, built, data
from tepui.data.arrays import Batch
from tepui.losses import cross_entropy
from tepui.modules.running import blocks, forward
from tepui.sharpness import sample_fisher_trace
from tepui.sharpness.recorder import whole_gradient_norms


@pytest.fixture(params=NAMES)
def case(request):
    torch.manual_seed(0)
    return built(request.param), data(request.param)


def _features(model, inputs):
    if isinstance(inputs, torch.Tensor):
        return model.features(inputs)
    return model.features(**inputs)


def _shapes(model):
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def test_every_model_has_a_case():
    assert set(CASES) == set(NAMES)


def test_config_rebuilds_the_model(case):
    model, _ = case
    rebuilt = type(model)(**json.loads(json.dumps(model.config)))
    assert _shapes(rebuilt) == _shapes(model)
    assert rebuilt.config == model.config


def test_gradient_reaches_every_parameter(case):
    model, samples = case
    logits = forward(model, samples.inputs)
    torch.nn.functional.cross_entropy(logits, samples.targets).backward()
    silent = [
        name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0
    ]
    assert silent == []


def test_samples_do_not_mix_in_eval_mode(case):
    model, samples = case
    model.eval()
    batch = Batch(samples.inputs, samples.targets, samples.targets)
    alone = torch.cat([forward(model, part.inputs) for part in blocks(batch, 1)])
    together = forward(model, samples.inputs)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_layers_tell_all_of_the_fisher_trace(case, recwarn):
    model, samples = case
    model.double().eval()
    if isinstance(samples.inputs, torch.Tensor):
        samples = samples.like(samples.inputs.double(), samples.targets)
    batch = Batch(samples.inputs, samples.targets, samples.targets)
    found = sample_fisher_trace(model, samples)
    expected = whole_gradient_norms(model, batch, cross_entropy)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    assert not recwarn.list


def test_features_are_what_all_layers_make_of_the_input(case):
    model, dataset = case
    model.eval()
    inputs = dataset.prepare(dataset.inputs)
    first, *others = model.layers
    x = first(inputs) if isinstance(inputs, torch.Tensor) else first(**inputs)
    for layer in others:
        x = layer(x)
    assert x.shape == (6, model.classifier.in_features)
    torch.testing.assert_close(_features(model, inputs), x, rtol=0, atol=0)
    logits = x @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(forward(model, inputs), logits)
