"""Hugging Face's sequence classifiers, with tiny random configurations."""

import json
import sys

import pytest

from tepui.models import from_huggingface

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


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
        model = from_huggingface(tmp_path, 3, pretrained=False)
        assert model.classifier.out_features == 3
        assert "auto_map" not in model.config["document"]
    else:
        with pytest.raises((ValueError, OSError)):
            from_huggingface(tmp_path, 3, pretrained=pretrained)
    assert not trace.exists()


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = r'transformers is not installed: pip install "tepui\[text\]"'
    with pytest.raises(ImportError, match=message):
        from_huggingface("albert-base-v2")
