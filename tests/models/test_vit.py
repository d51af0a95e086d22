import pytest
import torch
from torch import nn

from tepui.models import ViTSmall, ViTTiny


def _parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_parameter_counts():
    with torch.device("meta"):
        assert _parameters(ViTTiny()) == 5_362_762
        assert _parameters(ViTSmall()) == 21_342_346
        of_imagenet = {"num_classes": 1000, "image_size": 224, "patch_size": 16}
        assert _parameters(ViTTiny(**of_imagenet)) == 5_717_416
        assert _parameters(ViTSmall(**of_imagenet)) == 22_050_664


def reference(model, x):
    """The same network from torch's own encoder layers, all tokens to the end."""
    tokens, *halves, last, norm = (
        m for m in model.layers if next(m.parameters(), None) is not None
    )
    halves.append(last)
    size = tokens.patches.kernel_size[0]
    patches = nn.functional.unfold(x, size, stride=size).transpose(1, 2)
    weight = tokens.patches.weight.flatten(1)
    x = patches @ weight.T + tokens.patches.bias
    first = tokens.first.weight.expand(len(x), 1, -1)
    x = torch.cat([first, x], 1) + tokens.positions.weight
    width = x.shape[-1]
    for attend, think in zip(halves[::2], halves[1::2], strict=True):
        heads = attend.branch.heads
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            4 * width,
            dropout=0.0,
            activation=nn.functional.gelu,
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=True,
            dtype=x.dtype,
        ).eval()
        layer.self_attn.in_proj_weight.data = attend.branch.projection.weight.data
        layer.self_attn.in_proj_bias.data = attend.branch.projection.bias.data
        layer.self_attn.out_proj = attend.branch.output
        layer.norm1, layer.norm2 = attend.norm, think.norm
        layer.linear1, layer.linear2 = think.branch[0], think.branch[2]
        x = layer(x)
    return model.classifier(norm(x)[:, 0])


@pytest.mark.parametrize("kind", [ViTTiny, ViTSmall])
def test_matches_torchs_encoder(kind):
    torch.manual_seed(0)
    model = kind(num_classes=5, image_size=12, depth=2).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    x = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    torch.testing.assert_close(model(x), reference(model, x))


def test_images_of_another_size_are_refused():
    model = ViTTiny(image_size=16, depth=1)
    message = r"x must hold images of 16 patches, got \(1, 3, 32, 32\)"
    with pytest.raises(ValueError, match=message):
        model(torch.zeros(1, 3, 32, 32))


def test_patches_must_tile_the_image():
    message = r"patch_size must divide image_size \(32\), got 5"
    with pytest.raises(ValueError, match=message):
        ViTTiny(patch_size=5)
