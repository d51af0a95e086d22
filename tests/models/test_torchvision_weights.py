"""Names and shapes as torchvision publishes them, listed in ``torchvision.json``."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tepui.models import VGG19, VGG19BN, ResNet18, load_torchvision

LAYOUTS = json.loads((Path(__file__).parent / "fixtures/torchvision.json").read_text())
MODELS = {
    "resnet18": lambda **how: ResNet18(stem="imagenet", **how),
    "vgg19": lambda **how: VGG19(head="imagenet", **how),
    "vgg19_bn": lambda **how: VGG19BN(head="imagenet", **how),
}
HEADS = {"resnet18": "fc", "vgg19": "classifier.6", "vgg19_bn": "classifier.6"}
every_layout = pytest.mark.parametrize("name", LAYOUTS)


def drawn(model, classes=9):
    """A random state in torchvision's names for a model of any width."""
    own = {name: tensor.shape for name, tensor in model.state_dict().items()}
    stream = torch.Generator().manual_seed(1)
    state = {}
    parts = model.torchvision_names()
    for name, shape in own.items():
        part = next(p for p in parts if name.startswith(f"{p}."))
        tensor = torch.rand(shape, generator=stream) + 0.1
        if tensor.ndim > 1:
            tensor = (tensor - 0.6) / tensor[0].numel() ** 0.5
        if part == "classifier":
            tensor = torch.randn(classes, *shape[1:], generator=stream)
        if not shape:
            tensor = torch.tensor(3)
        state[f"{parts[part]}{name.removeprefix(part)}"] = tensor
    return state


def _norm(x, state, name):
    values = [state[f"{name}.{n}"] for n in ("running_mean", "running_var")]
    return F.batch_norm(x, *values, state[f"{name}.weight"], state[f"{name}.bias"])


def _linear(x, state, name):
    return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def naive_resnet18(state, x):
    """torchvision's network from its state dict alone."""
    x = F.conv2d(x, state["conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(F.relu(_norm(x, state, "bn1")), 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            y = F.relu(_norm(y, state, f"{name}.bn1"))
            y = F.conv2d(y, state[f"{name}.conv2.weight"], padding=1)
            y = _norm(y, state, f"{name}.bn2")
            if f"{name}.downsample.0.weight" in state:
                x = F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride)
                x = _norm(x, state, f"{name}.downsample.1")
            x = F.relu(x + y)
    return _linear(x.mean((2, 3)), state, "fc")


def naive_vgg(state, x):
    """torchvision's networks: a number in the names that nothing bears is a layer."""
    numbers = {int(n.split(".")[1]) for n in state if n.startswith("features.")}
    normed = "features.1.running_mean" in state
    gap = 3 if normed else 2
    number = 0
    while number <= max(numbers) - (1 if normed else 0):
        weight, bias = (state[f"features.{number}.{n}"] for n in ("weight", "bias"))
        x = F.conv2d(x, weight, bias, padding=1)
        x = F.relu(_norm(x, state, f"features.{number + 1}") if normed else x)
        number += gap
        if number not in numbers:
            x, number = F.max_pool2d(x, 2), number + 1
    x = F.adaptive_avg_pool2d(x, 7).flatten(1)
    x = F.relu(_linear(x, state, "classifier.0"))
    x = F.relu(_linear(x, state, "classifier.3"))
    return _linear(x, state, "classifier.6")


@every_layout
def test_names_and_shapes_are_those_of_torchvision(name):
    with torch.device("meta"):
        model = MODELS[name](num_classes=1000)
        state = {key: torch.empty(shape) for key, shape in LAYOUTS[name]}
        assert load_torchvision(model, state)
    assert drawn_names(model) == {key for key, _ in LAYOUTS[name]}


def drawn_names(model):
    parts = model.torchvision_names()
    return {
        f"{theirs}{name.removeprefix(own)}"
        for own, theirs in parts.items()
        for name in model.state_dict()
        if name.startswith(f"{own}.")
    }


@every_layout
def test_outputs_are_those_of_torchvisions_network(name):
    model = MODELS[name](num_classes=9, width=2).eval()
    state = drawn(model)
    assert load_torchvision(model, state)
    naive = naive_resnet18 if name == "resnet18" else naive_vgg
    x = torch.randn(2, 3, 64, 64)
    expected = naive(state, x)
    assert expected.std() > 0
    torch.testing.assert_close(model(x), expected, rtol=1e-3, atol=1e-4)


@every_layout
def test_a_head_for_other_classes_stays_new(name):
    model = MODELS[name](num_classes=200, width=2)
    head = model.classifier.weight.detach().clone()
    body = [p.detach().clone() for p in model.layers.parameters()]
    assert not load_torchvision(model, drawn(model, classes=1000))
    assert torch.equal(model.classifier.weight, head)
    changed = zip(model.layers.parameters(), body, strict=True)
    assert not any(torch.equal(new, old) for new, old in changed)


def test_states_without_counters_load():
    model = ResNet18(9, width=2, stem="imagenet")
    state = drawn(model)
    old = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    assert len(old) < len(state)
    assert load_torchvision(model, old)
    assert torch.equal(model.layers[0][0].weight, state["conv1.weight"])


def test_states_of_another_architecture_change_nothing():
    model = ResNet18(9, width=2, stem="imagenet")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(
        ValueError, match=r"weights of ResNet18, got missing .*unexpected"
    ):
        load_torchvision(model, drawn(VGG19(9, width=1, head="imagenet")))
    wrong = drawn(model) | {"layer4.1.conv2.weight": torch.zeros(3)}
    message = r"state\['layer4.1.conv2.weight'\] must have shape \(16, 16, 3, 3\)"
    with pytest.raises(ValueError, match=message):
        load_torchvision(model, wrong)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_the_stem_for_small_images_is_refused():
    message = r"state\['conv1.weight'\] must have shape \(64, 3, 3, 3\), got"
    with torch.device("meta"):
        state = {key: torch.empty(shape) for key, shape in LAYOUTS["resnet18"]}
        with pytest.raises(ValueError, match=message):
            load_torchvision(ResNet18(1000), state)
