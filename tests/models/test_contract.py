"""What every model of tepui must do."""

import inspect
import json

import pytest
import torch

import tepui.models
from tepui.models import Model

CASES = {
    "ResNet18": ({"num_classes": 7, "in_channels": 2, "width": 4}, (2, 16, 16)),
    "ConvNet": ({"num_classes": 7, "in_channels": 2, "width": 4}, (2, 9, 8)),
    "MLP": ({"in_features": 24, "hidden": (16, 12), "num_classes": 7}, (2, 3, 4)),
}
NAMES = sorted(set(tepui.models.__all__) - {"Model"})


@pytest.fixture(params=NAMES)
def case(request):
    torch.manual_seed(0)
    arguments, shape = CASES[request.param]
    model = getattr(tepui.models, request.param)(**arguments)
    return model, torch.randn(6, *shape)


def _shapes(model):
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def test_every_model_has_a_case():
    assert set(CASES) == set(NAMES)


def test_forward_is_classifier_of_features(case):
    model, x = case
    model.eval()
    features = model.features(x)
    assert features.shape == (6, model.classifier.in_features)
    assert model(x).shape == (6, 7)
    assert torch.equal(model(x), model.classifier(features))


def test_config_rebuilds_the_model(case):
    model, _ = case
    rebuilt = type(model)(**json.loads(json.dumps(model.config)))
    assert _shapes(rebuilt) == _shapes(model)
    assert rebuilt.config == model.config


@pytest.mark.parametrize("name", NAMES)
def test_config_names_every_argument(name):
    model = getattr(tepui.models, name)
    assert set(model(**CASES[name][0]).config) == set(
        inspect.signature(model).parameters
    )


def test_gradient_reaches_every_parameter(case):
    model, x = case
    torch.nn.functional.cross_entropy(model(x), torch.arange(6)).backward()
    silent = [
        name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0
    ]
    assert silent == []


def test_samples_do_not_mix_in_eval_mode(case):
    model, x = case
    model.eval()
    alone = torch.cat([model(row[None]) for row in x])
    torch.testing.assert_close(model(x), alone, rtol=1e-4, atol=1e-5)


def test_is_a_model_and_final(case):
    model, _ = case
    assert isinstance(model, Model)
    assert type(model).forward is Model.forward


def test_base_is_abstract():
    with pytest.raises(TypeError, match="features"):
        Model()


@pytest.mark.parametrize("name", NAMES)
def test_sizes_must_be_positive(name):
    arguments = CASES[name][0]
    for argument, value in arguments.items():
        bad = (3, 0) if isinstance(value, tuple) else 0
        with pytest.raises(ValueError, match=f"{argument}.* must be positive, got 0"):
            getattr(tepui.models, name)(**{**arguments, argument: bad})
