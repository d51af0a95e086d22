import pytest
import torch
from torch.nn.functional import cross_entropy

from tepui.data import Digits
from tepui.models import ConvNet


def test_is_small():
    assert sum(p.numel() for p in ConvNet().parameters()) == 7234


@pytest.mark.parametrize("side", [8, 28])
def test_width_of_features_does_not_depend_on_the_image(side):
    assert ConvNet().features(torch.zeros(2, 1, side, side)).shape == (2, 128)


def test_a_stride_keeps_the_parameters_and_leaves_out_pixels():
    usual, sparse = ConvNet(), ConvNet(stride=2)
    sparse.load_state_dict(usual.state_dict())
    x = torch.rand(2, 1, 28, 28)
    first = usual.layers[0](x)
    assert torch.allclose(sparse.layers[0](x), first[..., ::2, ::2], atol=1e-6)
    assert sparse.features(x).shape == usual.features(x).shape


def test_two_epochs_learn_digits():
    torch.manual_seed(0)
    train, test = Digits(train=True), Digits(train=False)
    x, model = train.prepare(train.inputs), ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for rows in torch.cat([torch.randperm(len(x)) for _ in range(2)]).split(64):
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), train.targets[rows]).backward()
        optimizer.step()
    right = model.eval()(test.prepare(test.inputs)).argmax(1) == test.targets
    assert right.float().mean() > 0.9
