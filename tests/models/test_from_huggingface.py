"""Hugging Face's sequence classifiers, with tiny random configurations."""

import json
import sys

import pytest
import torch
from torch import nn

import tepui
from models.cases import data
from tepui.models import from_huggingface, split_last_layers
from tepui.modules.running import forward
from tepui.sharpness import sample_fisher_trace

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


@pytest.fixture(params=["Albert", "Bert", "Roberta"])
def folder(request, tmp_path):
    """A tiny model as its library saves it."""
    library = pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    torch.manual_seed(0)
    extra = {"Albert": {"embedding_size": 6}, "Roberta": {"type_vocab_size": 2}}
    config = getattr(library, f"{request.param}Config")(
        **SIZES, **extra.get(request.param, {}), num_labels=7
    )
    kind = getattr(library, f"{request.param}ForSequenceClassification")
    kind(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def direct(folder, inputs):
    import transformers

    kind = transformers.AutoModelForSequenceClassification
    return kind.from_pretrained(folder).eval()(**inputs).logits


def test_outputs_are_the_librarys_own(folder):
    inputs = data("Albert").inputs
    model = from_huggingface(folder, num_classes=7).eval()
    torch.testing.assert_close(forward(model, inputs), direct(folder, inputs))
    features = model.features(**inputs)
    assert torch.equal(model.classifier(features), forward(model, inputs))
    assert isinstance(model.classifier, nn.Linear)


@pytest.mark.filterwarnings("ignore:.* the Fisher trace of")
def test_trains_and_is_scored(folder):
    make = lambda: from_huggingface(folder, 7, pretrained=False)  # noqa: E731
    ensemble = tepui.Ensemble.build(make, members=2, seed=1)
    samples = data("Albert", samples=8)
    method = tepui.methods.SharpBalance(rho=0.1)
    how = {"epochs": 2, "batch_size": 4, "device": "cpu", "progress": "none"}
    run = tepui.fit(ensemble, samples, method=method, **how)
    assert torch.isfinite(torch.tensor(run.history[-1].loss)).all()
    scores = sample_fisher_trace(ensemble.members[0], samples)
    assert scores.shape == (8,)
    assert (scores > 0).all()


def test_only_the_head_is_trained_after_a_cut(folder):
    model = from_huggingface(folder, 7).eval()
    inputs = data("Albert").inputs
    split = split_last_layers(model)
    assert torch.equal(forward(split.whole().eval(), inputs), forward(model, inputs))


BRINGS_CODE = [
    ("trust_remote_code", {"trust_remote_code": True}),
    ("trust_remote_code", {"trust_remote_code": False}),
    ("code_revision", {"code_revision": "main"}),
    ("auto_map", {"auto_map": {"AutoConfig": "code.Config"}}),
    ("text_config.auto_map", {"text_config": {"auto_map": {}}}),
    ("parts.inner.auto_map", {"parts": [{"a": 1}, {"inner": {"auto_map": {}}}]}),
    ("attn_implementation", {"attn_implementation": "some/body"}),
    ("_attn_implementation", {"_attn_implementation": {"text": "some/body"}}),
]


@pytest.mark.parametrize(("argument", "options"), BRINGS_CODE)
def test_options_that_bring_code_are_refused(argument, options, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=rf"^{argument} must .* is never run, got "):
        from_huggingface("albert-base-v2", **options)


CODE = """
from pathlib import Path
from transformers import BertConfig, BertForSequenceClassification

Path({!r}).touch()

class Config(BertConfig):
    model_type = "strange"

class Model(BertForSequenceClassification):
    config_class = Config
"""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("pretrained", [True, False])
def test_code_beside_a_model_is_not_run(pretrained, known, tmp_path, monkeypatch):
    pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    trace = tmp_path / "imported"
    (tmp_path / "code_beside.py").write_text(CODE.format(str(trace)))
    code = {"AutoConfig": "code_beside.Config"}
    code["AutoModelForSequenceClassification"] = "code_beside.Model"
    kind = "bert" if known else "strange"
    document = {**SIZES, "model_type": kind, "auto_map": code}
    (tmp_path / "config.json").write_text(json.dumps(document))
    monkeypatch.setattr("builtins.input", lambda *words: "y")
    if known and not pretrained:
        assert (
            from_huggingface(tmp_path, 3, pretrained=False).classifier.out_features == 3
        )
    else:
        with pytest.raises((ValueError, OSError)):
            from_huggingface(tmp_path, 3, pretrained=pretrained)
    assert not trace.exists()


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = r'transformers is not installed: pip install "tepui\[text\]"'
    with pytest.raises(ImportError, match=message):
        from_huggingface("albert-base-v2")
