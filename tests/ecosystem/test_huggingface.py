"""Classifiers of transformers: members, saved with their configuration."""

import pytest
import torch
from torch import nn

import tepui
from tepui.core.storage import read_tensors, write_tensors
from tepui.models import from_huggingface, split_last_layers
from tepui.modules.running import forward

library = pytest.importorskip("transformers", reason="needs the extra text")

SMALL = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
TEXT = {**SMALL, "vocab_size": 20, "max_position_embeddings": 16}
PICTURE = {**SMALL, "image_size": 8, "patch_size": 4}
CONFIGS = {
    "bert": ("text", TEXT),
    "roberta": ("text", {**TEXT, "type_vocab_size": 2}),
    "distilbert": ("text", {"dim": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 20}),
    "gpt2": (
        "text",
        {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 20, "pad_token_id": 0},
    ),
    "vit": ("image", PICTURE),
    "convnext": (
        "image",
        {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
    ),
    "resnet": (
        "image",
        {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1]},
    ),
    "wav2vec2": (
        "audio",
        {
            **SMALL,
            "conv_dim": [8, 8],
            "conv_kernel": [4, 2],
            "conv_stride": [2, 2],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "classifier_proj_size": 8,
            "mask_time_prob": 0.0,
        },
    ),
    "videomae": ("video", {**PICTURE, "num_frames": 2, "tubelet_size": 2}),
}
AUTO = {
    "text": "AutoModelForSequenceClassification",
    "image": "AutoModelForImageClassification",
    "audio": "AutoModelForAudioClassification",
    "video": "AutoModelForVideoClassification",
}


def samples(kind, count=6):
    generator = torch.Generator().manual_seed(0)
    if kind == "text":
        ids = torch.randint(1, 20, (count, 6), generator=generator)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    shapes = {"image": (3, 8, 8), "audio": (64,), "video": (2, 3, 8, 8)}
    return torch.randn(count, *shapes[kind], generator=generator)


@pytest.fixture(params=CONFIGS)
def published(request, tmp_path):
    """A small model as its library saves it: kind, folder and its own logits."""
    kind, values = CONFIGS[request.param]
    torch.manual_seed(0)
    config = library.AutoConfig.for_model(request.param, num_labels=5, **values)
    model = getattr(library, AUTO[kind]).from_config(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(tmp_path / "published")
    inputs = samples(kind)
    keywords = inputs if isinstance(inputs, dict) else {}
    with torch.no_grad():
        logits = model(*([] if keywords else [inputs]), **keywords).logits
    return kind, tmp_path / "published", logits


def test_outputs_are_the_librarys_own(published):
    kind, folder, expected = published
    model = from_huggingface(folder, num_classes=5, kind=kind).eval()
    torch.testing.assert_close(forward(model, samples(kind)), expected)
    assert model.classifier.out_features == 5
    whole = split_last_layers(model).whole().eval()
    torch.testing.assert_close(forward(whole, samples(kind)), expected)


def test_a_saved_ensemble_needs_no_factory(published, tmp_path, monkeypatch):
    kind, folder, _ = published

    def member():
        return from_huggingface(folder, num_classes=5, pretrained=False, kind=kind)

    ensemble = tepui.Ensemble.build(member, members=2, seed=1)
    expected = ensemble.predict(samples(kind))
    ensemble.save(tmp_path / "saved")
    for file in folder.iterdir():
        file.unlink()  # whatever it is built from lies in the ensemble's own folder
    loaded = tepui.load(tmp_path / "saved")
    assert torch.equal(loaded.predict(samples(kind)).logits, expected.logits)
    described = [module.config["document"] for module in loaded.members]
    assert all("_name_or_path" not in document for document in described)
    assert str(folder) not in (tmp_path / "saved" / "ensemble.safetensors").read_text(
        errors="ignore"
    )


def test_pretrained_members_are_trained_and_come_back(tmp_path):
    kind, values = CONFIGS["bert"]
    config = library.AutoConfig.for_model("bert", num_labels=5, **values)
    torch.manual_seed(0)
    library.BertForSequenceClassification(config).save_pretrained(tmp_path / "base")

    def member():
        return from_huggingface(tmp_path / "base", num_classes=3)

    with pytest.warns(UserWarning, match="start from identical weights"):
        ensemble = tepui.Ensemble.build(member, members=2, seed=1)
    data = tepui.data.Arrays(samples(kind, 12), torch.arange(12) % 3)
    tepui.fit(
        ensemble,
        data,
        method=tepui.methods.SharpBalance(rho=0.1),
        epochs=2,
        device="cpu",
        progress="none",
        out=tmp_path / "run",
    )
    loaded = tepui.load(tmp_path / "run")
    inputs = samples(kind)
    assert torch.equal(loaded.predict(inputs).logits, ensemble.predict(inputs).logits)


def test_a_model_of_the_library_is_a_member_as_it_is():
    """Its outputs are a mapping with logits; to load it again takes a factory."""
    kind, values = CONFIGS["vit"]
    config = library.AutoConfig.for_model("vit", num_labels=5, **values)

    def member():
        return library.ViTForImageClassification(config)

    ensemble = tepui.Ensemble.build(member, members=2, seed=1)
    inputs = samples(kind)
    ensemble.eval()
    expected = torch.stack([m(inputs).logits for m in ensemble.members])
    assert torch.equal(ensemble.predict(inputs).logits, expected.detach())


def doctored(folder, change):
    """Rewrite what a file says of its members, with a digest that fits."""
    file = folder / "ensemble.safetensors"
    tensors, document = read_tensors(file, "ensemble")
    for member in document["members"]:
        change(member["config"])
    write_tensors(file, "ensemble", tensors, document)


@pytest.fixture
def saved(tmp_path):
    _, values = CONFIGS["bert"]
    config = library.AutoConfig.for_model("bert", num_labels=5, **values)
    config.save_pretrained(tmp_path / "config")
    ensemble = tepui.Ensemble.build(
        lambda: from_huggingface(tmp_path / "config", 5, pretrained=False), members=2
    )
    ensemble.save(tmp_path / "saved")
    return tmp_path / "saved"


CHANGES = [
    ({"auto_map": {"AutoConfig": "code.Config"}}, "auto_map must be left out"),
    ({"_attn_implementation": "some/body"}, "must not name a repository"),
    ({"model_type": "strange"}, "model_type must be one of"),
    ({"inner": {"use_pretrained_backbone": True}}, "use_pretrained_backbone must be"),
    ({"quantization_config": {"load_in_4bit": True}}, "quantization_config must be"),
    ({"num_hidden_layers": 10_000_000}, "parameters is expected"),
    ({"hidden_size": 16}, "must have shape"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_configuration_brings_neither_code_nor_downloads(saved, change, message):
    doctored(saved, lambda config: config["document"].update(change))
    with pytest.raises(ValueError, match=message):
        tepui.load(saved)


def test_a_file_names_no_place(saved):
    doctored(saved, lambda config: config.update(name="some/body"))
    with pytest.raises(ValueError, match=r"config in .* must hold the arguments of"):
        tepui.load(saved)
