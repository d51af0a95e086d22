"""The Fisher–Rao norm against its definition."""

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.models import ConvNet
from tepui.sharpness import fisher_rao


def homogeneous(depth=3):
    torch.manual_seed(0)
    widths = [6, *([8] * (depth - 1)), 4]
    layers = []
    for i in range(depth):
        layers += [nn.Linear(widths[i], widths[i + 1], bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def convolutional():
    torch.manual_seed(0)
    model = ConvNet(4, 1, 4).double()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return model


def classified(shape=(6,), samples=12):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, *shape, generator=stream, dtype=torch.float64)
    return Arrays(x, torch.randint(4, (samples,), generator=stream))


def along_weights(model, x, y):
    """One sample's derivative of the loss along the weights."""
    parameters = list(model.parameters())
    loss = cross_entropy(model.eval()(x[None]), torch.tensor([y]))[0]
    grads = torch.autograd.grad(loss, parameters)
    products = [(p.detach() * g).sum() for p, g in zip(parameters, grads, strict=True)]
    return float(sum(products))


def naive_squared_norm(model, data, labels):
    total = 0.0
    for x, y in zip(data.inputs, data.targets, strict=True):
        if labels == "empirical":
            total += along_weights(model, x, int(y)) ** 2
        else:
            probs = model.eval()(x[None]).softmax(1)[0].tolist()
            total += sum(
                p * along_weights(model, x, c) ** 2 for c, p in enumerate(probs)
            )
    return total / len(data)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("labels", ["empirical", "model"])
def test_analytic_equals_direct_on_a_homogeneous_network(depth, labels):
    model, data = homogeneous(depth), classified()
    analytic = fisher_rao(model, data, depth=depth, labels=labels)
    direct = fisher_rao(model, data, method="direct", labels=labels, batch_size=5)
    assert analytic.settings["depth"] == depth
    assert analytic.value == pytest.approx(direct.value, rel=1e-10)
    assert analytic.standard_error == pytest.approx(direct.standard_error, rel=1e-10)


@pytest.mark.parametrize("labels", ["empirical", "model"])
@pytest.mark.parametrize("build", [homogeneous, convolutional])
def test_direct_equals_the_definition(build, labels):
    data = classified((6,) if build is homogeneous else (1, 8, 8))
    model = build()
    measured = fisher_rao(model, data, method="direct", labels=labels, squared=True)
    assert measured.value == pytest.approx(naive_squared_norm(model, data, labels))
    root = fisher_rao(model, data, method="direct", labels=labels)
    assert root.value**2 == pytest.approx(measured.value)
    assert root.standard_error == pytest.approx(
        measured.standard_error / 2 / root.value
    )


def test_the_analytic_form_of_logits_by_hand():
    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return x

    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    data = Arrays(logits, torch.tensor([0, 1]))
    p = torch.tensor(2.0).sigmoid()
    expected = ((0.0**2 + float(p * 2) ** 2) / 2) ** 0.5
    assert fisher_rao(Given(), data).value == pytest.approx(expected)
    shifted = Arrays(logits + 5, data.targets)
    assert fisher_rao(Given(), shifted).value == pytest.approx(expected, rel=1e-6)
    assert fisher_rao(Given(), data, depth=3).value == pytest.approx(3 * expected)


def test_any_loss_will_do_with_the_labels_of_the_data():
    def squared(outputs, targets):
        return 0.5 * (outputs - targets).square().sum(1)

    model = homogeneous(2)
    x = classified().inputs
    data = Arrays(x, torch.ones(12, 4).double())
    direct = fisher_rao(model, data, loss=squared, method="direct")
    f = model(x).detach()
    expected = ((2 * f * (f - 1)).sum(1) ** 2).mean().sqrt()
    assert direct.value == pytest.approx(float(expected))
