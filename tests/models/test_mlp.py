import torch

from tepui.models import MLP


def test_matches_hand_written_layers():
    model = MLP(in_features=12, hidden=(5, 4), num_classes=3)
    first, second = model.layers[1], model.layers[3]
    x = torch.randn(2, 1, 3, 4)
    hidden = (x.reshape(2, 12) @ first.weight.T + first.bias).clamp(min=0)
    hidden = (hidden @ second.weight.T + second.bias).clamp(min=0)
    expected = hidden @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model(x), expected)


def test_without_hidden_layers_it_is_linear():
    model = MLP(in_features=4, hidden=(), num_classes=2)
    x = torch.randn(3, 4)
    assert torch.equal(model(x), model.classifier(x))


def test_has_no_buffers_and_the_documented_size():
    model = MLP()
    assert list(model.buffers()) == []
    assert sum(p.numel() for p in model.parameters()) == 26_122
    assert model.classifier.in_features == 128
