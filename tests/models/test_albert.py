import pytest
import torch

from models.cases import built, data
from tepui.models import Albert


def test_parameter_count_of_albert_base():
    with torch.device("meta"):
        base = Albert(
            vocabulary=30_000, embedding=128, width=768, depth=12, heads=12, length=512
        )
        small = Albert()
    assert sum(p.numel() for p in base.parameters()) == 11_685_122
    assert sum(p.numel() for p in small.parameters()) == 756_098


def test_what_stands_behind_the_mask_does_not_matter():
    model, samples = built("Albert").eval(), data("Albert")
    before = model(**samples.inputs)
    other = dict(samples.inputs)
    padding = other["attention_mask"] == 0
    assert padding.any()
    other["input_ids"] = other["input_ids"].masked_fill(padding, 7)
    torch.testing.assert_close(model(**other), before)
    del other["attention_mask"]
    assert not torch.allclose(model(**other), before)


def test_matches_the_library_of_its_authors():
    transformers = pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    config = transformers.AlbertConfig(
        vocab_size=20,
        embedding_size=6,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=9,
        num_labels=7,
    )
    torch.manual_seed(0)
    theirs = transformers.AlbertForSequenceClassification(config).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours = built("Albert").double().eval()
    ours.load_state_dict(_translated(theirs.state_dict()))
    inputs = data("Albert").inputs
    torch.testing.assert_close(ours(**inputs), theirs(**inputs).logits)


def _translated(state):
    shared = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    prefixes = {
        "layers.0.words": "albert.embeddings.word_embeddings",
        "layers.0.positions": "albert.embeddings.position_embeddings",
        "layers.0.sentences": "albert.embeddings.token_type_embeddings",
        "layers.0.norm": "albert.embeddings.LayerNorm",
        "layers.0.widen": "albert.encoder.embedding_hidden_mapping_in",
        "layers.0.shared.attention.output": f"{shared}.attention.dense",
        "layers.0.shared.norm1": f"{shared}.attention.LayerNorm",
        "layers.0.shared.wide": f"{shared}.ffn",
        "layers.0.shared.narrow": f"{shared}.ffn_output",
        "layers.0.shared.norm2": f"{shared}.full_layer_layer_norm",
        "layers.0.pooler": "albert.pooler",
        "classifier": "classifier",
    }
    found = {
        name.replace(theirs, ours, 1): tensor
        for ours, theirs in prefixes.items()
        for name, tensor in state.items()
        if name.rpartition(".")[0] == theirs
    }
    for kind in ("weight", "bias"):
        three = [
            state[f"{shared}.attention.{part}.{kind}"]
            for part in ("query", "key", "value")
        ]
        found[f"layers.0.shared.attention.projection.{kind}"] = torch.cat(three)
    return found
