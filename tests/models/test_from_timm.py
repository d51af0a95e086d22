"""timm's models: a stand-in of the same shape (for the library: tests/ecosystem)."""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from tepui.models import Preprocess, from_timm, split_last_layers


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return self.mix(x.mean(1, keepdim=True) + x)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((8,), 0.3))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    """The attributes and the order of timm's block."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.ls1, self.ls2 = Scale(), Scale()
        self.drop_path1 = self.drop_path2 = nn.Identity()

    def forward(self, x):
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


class Transformer(nn.Module):
    """The attributes and the order of timm's vision transformer."""

    def __init__(self, classes, channels, pool):
        super().__init__()
        self.patch = nn.Conv2d(channels, 8, 4, 4)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.fc_norm = nn.LayerNorm(8), nn.Identity()
        self.global_pool = pool
        self.head = nn.Linear(8, classes)

    def get_classifier(self):
        return self.head

    def reset_classifier(self, classes):
        self.head = nn.Linear(8, classes) if classes else nn.Identity()

    def forward(self, x):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(tokens))
        x = x[:, 0] if self.global_pool == "token" else x.mean(1)
        return self.head(self.fc_norm(x))


class Strange(Transformer):
    def get_classifier(self):
        return nn.Sequential(self.head)


MADE = {}
ERRORS = {
    "fog": RuntimeError("Unknown model (fog)"),
    "far": OSError("We couldn't connect\nCheck your internet connection"),
}


PUBLISHED = {
    "input_size": (3, 16, 16),
    "crop_pct": 0.8,
    "crop_mode": "center",
    "interpolation": "bilinear",
    "mean": (0.5, 0.25, 0.0),
    "std": (0.5, 0.25, 2.0),
}


def create_model(name, pretrained, in_chans, num_classes=1000, pool="token"):
    if name in ERRORS:
        raise ERRORS[name]
    kind = Strange if name == "strange" else Transformer
    MADE["model"] = kind(num_classes, in_chans, pool)
    changed = {"bordered": {"crop_mode": "border"}, "oblong": {"input_size": (3, 8, 9)}}
    MADE["model"].pretrained_cfg = PUBLISHED | changed.get(name, {})
    MADE["pretrained"] = pretrained
    return MADE["model"]


@pytest.fixture
def library(monkeypatch):
    module = ModuleType("timm")
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", module)


def twin(state, classes=5, pool="token"):
    """The model as the library made it, before it was taken apart."""
    model = Transformer(classes, 3, pool)
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize("pool", ["token", "avg"])
def test_taking_apart_changes_no_output(library, monkeypatch, pool):
    states = []
    created = create_model

    def remembered(*names, **how):
        model = created(*names, **how)
        states.append({k: v.clone() for k, v in model.state_dict().items()})
        return model

    monkeypatch.setattr(sys.modules["timm"], "create_model", remembered)
    model = from_timm("vit", num_classes=5, pool=pool).eval()
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(model(x), twin(states[0], pool=pool)(x))
    assert model.features(x).shape == (3, 8)
    assert len(model.layers) == (3 if pool == "token" else 1)


def test_the_last_block_can_be_cut_between_its_halves(library):
    model = from_timm("deit", num_classes=5).eval()
    x = torch.randn(3, 3, 8, 8)
    split = split_last_layers(model, layers=3)
    assert split.extractor(x).shape == (3, 8)
    assert torch.equal(split.whole().eval()(x), model(x))
    names = {name for name, _ in split.tail().named_parameters()}
    assert "layers.0.scale.gamma" in names
    assert not any("mix" in name for name in names)
    assert any("mix" in name for name, _ in split.extractor.named_parameters())


def test_images_are_prepared_as_the_published_model_expects(library):
    model = from_timm("vit", preprocess=True).eval()
    first = model.layers[0]
    assert isinstance(first, Preprocess)
    assert (first.size, first.crop, first.interpolation) == (16, 0.8, "bilinear")
    x = torch.full((2, 3, 40, 30), 0.5)
    expected = torch.tensor([0.0, 1.0, 0.25])[:, None, None].expand(2, 3, 16, 16)
    torch.testing.assert_close(first(x), expected)
    # A saved ensemble has the same tensors with it and without.
    assert not [name for name in model.state_dict() if name.startswith("layers.0.")]


def test_a_model_without_one_linear_classifier_is_refused(library):
    message = r"name must name a model with one linear classifier, got 'strange'"
    with pytest.raises(ValueError, match=message):
        from_timm("strange")


@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint_path": "pickled.pth"},
        {"pretrained_cfg": {"file": "pickled.pth"}},
        {"pretrained_cfg_overlay": {"file": "pickled.pth"}},
    ],
)
def test_weights_from_elsewhere_are_refused(options, library):
    message = rf"{next(iter(options))} must be left out, .* got .*pickled"
    with pytest.raises(ValueError, match=message):
        from_timm("vit", pretrained=True, **options)


@pytest.mark.parametrize("option", ["trust_remote_code", "code_revision", "auto_map"])
def test_no_option_brings_code(option, library):
    for options in ({option: "main"}, {"model_args": {option: "main"}}):
        with pytest.raises(ValueError, match=f"{option} must be left out, since"):
            from_timm("vit", **options)


@pytest.mark.parametrize(
    ("kind", "then"), [("x86_64", ""), ("aarch64", ", then pip install --no-deps timm")]
)
def test_a_missing_library_is_named_with_its_extra(kind, then, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    module = sys.modules["tepui.models.from_timm"]
    monkeypatch.setattr(module, "machine", lambda: kind)
    with pytest.raises(ImportError) as raised:
        from_timm("vit_tiny_patch16_224")
    remedy = f'pip install "tepui[vision]"{then}'
    assert str(raised.value) == f"timm is not installed: {remedy}"
