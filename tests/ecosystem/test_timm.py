"""timm's own models, with random weights, also where torchvision cannot be loaded."""

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from tepui.models import Resize, from_timm, split_last_layers
from tepui.models.without_torchvision import stand_in_for_torchvision

with stand_in_for_torchvision():
    timm = pytest.importorskip("timm", reason="needs the extra vision")

TRANSFORMERS = ["vit_tiny_patch16_224", "deit3_small_patch16_224"]


def in_order(model):
    """Parameters in the library's order."""
    _, body, half, norm = model.layers
    return [
        p for part in (body, half, norm, model.classifier) for p in part.parameters()
    ]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_taken_apart_and_stay_the_same(name):
    expected = timm.create_model(name, num_classes=7).eval()
    for parameter in expected.parameters():
        nn.init.normal_(parameter, std=0.05)
    model = from_timm(name, num_classes=7, resize=224).eval()
    for parameter, value in zip(in_order(model), expected.parameters(), strict=True):
        parameter.data = value.data
    x = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(model(x), expected(Resize(224)(x)), rtol=1e-3, atol=1e-4)
    tail = split_last_layers(model, layers=3).tail()
    assert {type(part).__name__ for part in tail.layers} == {"_Half", "LayerNorm"}


@pytest.mark.parametrize("name", [*TRANSFORMERS, "resnet18", "convnext_atto"])
def test_images_are_prepared_as_the_library_says(name):
    model = from_timm(name, num_classes=3, preprocess=True)
    said = timm.data.resolve_model_data_config(timm.create_model(name))
    layer = model.layers[0]
    assert (3, layer.size, layer.size) == said["input_size"]
    assert layer.mean.flatten().tolist() == pytest.approx(said["mean"])
    assert layer.std.flatten().tolist() == pytest.approx(said["std"])
    found = (layer.crop, layer.interpolation)
    assert found == (said["crop_pct"], said["interpolation"])


@pytest.mark.parametrize("shape", [(300, 400), (100, 80)])
@pytest.mark.parametrize("name", [*TRANSFORMERS, "resnet18"])
def test_the_librarys_own_transform_agrees(name, shape):
    """The transform itself is torchvision's: only where that loads."""
    pytest.importorskip(
        "torchvision", reason="torchvision does not load here", exc_type=Exception
    )
    from PIL import Image

    model = timm.create_model(name)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    layer = from_timm(name, preprocess=True).layers[0]
    pixels = np.random.default_rng(0).integers(64, 192, (*shape, 3), np.uint8)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    expected = transform(Image.fromarray(pixels))
    step = 2.1 / 255 / float(layer.std.min())  # Pillow rounds to bytes twice
    torch.testing.assert_close(layer(images)[0], expected, rtol=0, atol=step)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_an_ensemble_of_tails_learns(name, device, tmp_path):
    """Pretrained structure, random weights: heads on one frozen body."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    split = split_last_layers(from_timm(name, num_classes=2, preprocess=True).eval(), 3)
    ensemble = tepui.Ensemble.on_features(
        split.extractor, lambda: split.tail(fresh=True), members=2, seed=1
    )
    ensemble.to(device)
    images = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    data = tepui.data.Arrays(images, torch.arange(8) % 2)
    method = tepui.methods.SAM()
    how = {"epochs": 2, "device": device, "progress": "none"}
    run = tepui.fit(ensemble, data, method=method, optimizer=tepui.SGD(lr=1e-3), **how)
    assert np.isfinite(run.history[-1].loss).all()
    assert ensemble.predict(images).probs.shape == (8, 2)


OPTIONS = {"drop_rate": 0.1, "img_size": 32}


@pytest.mark.parametrize(
    "how",
    [
        {"name": "vit_tiny_patch16_224", "resize": 32, **OPTIONS},
        {"name": "vit_tiny_patch16_224", "preprocess": True, **OPTIONS},
        {"name": "resnet18", "in_channels": 1},
    ],
    ids=str,
)
def test_a_saved_ensemble_is_loaded_without_a_factory(tmp_path, how):
    ensemble = tepui.Ensemble.build(lambda: from_timm(num_classes=3, **how), members=2)
    ensemble.save(tmp_path)
    loaded = tepui.load(tmp_path)
    x = torch.rand(2, how.get("in_channels", 3), 40, 40)
    assert loaded.logits(x).equal(ensemble.eval().logits(x))


def test_options_that_no_file_holds_need_a_factory(tmp_path):
    def make():
        return from_timm("vit_tiny_patch16_224", 3, norm_layer=nn.LayerNorm, **OPTIONS)

    tepui.Ensemble.build(make, members=2).save(tmp_path)
    with pytest.raises(ValueError, match="factory must be given"):
        tepui.load(tmp_path)
    assert len(tepui.load(tmp_path, make)) == 2
