"""Adapters of PEFT as members: one body for all, in memory and in every file."""

import json

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble
from tepui.core.spec import read
from tepui.data import Arrays
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from tepui.models import MLP, LoRA, from_huggingface

peft = pytest.importorskip("peft", reason="needs the extra adapters")

BERT = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 500,
    "max_position_embeddings": 16,
}
KINDS = {
    "LoRA": LoRA(rank=2, targets=("1", "3")),
    "DoRA": LoRA(rank=2, targets=("1", "3"), magnitude=True),
    "dropout": LoRA(rank=2, targets=("1",), dropout=0.25),
    "IA3": peft.IA3Config(target_modules=["1"], feedforward_modules=[]),
}
METHODS = [DeepEnsemble(), SAM(rho=0.1), SharpBalance(rho=0.1), SED()]


def rows(samples=24):
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % 3
    return Arrays(torch.randn(samples, 4, generator=stream) + labels[:, None], labels)


def body(width=64):
    torch.manual_seed(0)
    return MLP(4, (width, width), 3)


def texts(samples=12):
    stream = torch.Generator().manual_seed(0)
    ids = torch.randint(500, (samples, 8), generator=stream)
    mask = torch.ones_like(ids)
    return Arrays({"input_ids": ids, "attention_mask": mask}, torch.arange(samples) % 2)


# Their names in older and newer versions of transformers.
QV = ("query", "value", "q_proj", "v_proj")
VIT = {
    "model_type": "vit",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "image_size": 32,
    "patch_size": 8,
}


def pictures(samples=16):
    stream = torch.Generator().manual_seed(0)
    pixels = torch.rand(samples, 3, 32, 32, generator=stream)
    return Arrays(pixels, torch.arange(samples) % 2)


@pytest.fixture
def vit(tmp_path):
    folder = tmp_path / "vit"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(VIT))
    return from_huggingface(folder, pretrained=False, kind="image")


@pytest.fixture
def bert(tmp_path):
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(BERT))
    torch.manual_seed(0)
    return from_huggingface(folder, pretrained=False)


def fitted(ensemble, data=None, **how):
    how = {"method": DeepEnsemble(), "epochs": 2, "progress": "none"} | how
    return tepui.fit(ensemble, rows() if data is None else data, batch_size=8, **how)


def assert_same(one, other):
    state = other.state_dict()
    assert all(state[name].equal(t) for name, t in one.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_the_body_and_train_the_rest(tmp_path, kind):
    start = body()
    ensemble = Ensemble.adapters(start, KINDS[kind], 3)
    ensemble.eval()
    x = rows().inputs
    layers = [member.layers for member in ensemble.members]
    # LoRA and IA3 begin as the body; classifiers begin anew.
    for each in layers:
        torch.testing.assert_close(each(x), start.layers.eval()(x))
    run = fitted(ensemble, out=tmp_path / "run", keep="best", validation=0.25)
    size = ensemble.size()
    frozen = sum(p.nbytes for p in start.layers.parameters())
    assert size.shared == frozen
    assert size.total < frozen + 3 * size.trained[0] + 1
    loaded = tepui.load(tmp_path / "run")
    assert loaded.size() == size
    assert_same(loaded, run.ensemble)
    assert loaded.logits(x).equal(run.ensemble.logits(x))


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_resumed_run_of_texts_ends_at_the_same_bits(tmp_path, bert, method):
    def ensemble():
        return Ensemble.adapters(bert, LoRA(rank=2), 3, seed=7)

    how = {"method": method, "epochs": 3, "data": texts()}
    whole = fitted(ensemble(), **how)
    fitted(ensemble(), out=tmp_path / "run", stop_after=1, **how)
    resumed = fitted(ensemble(), out=tmp_path / "run", resume=True, **how)
    assert_same(resumed.ensemble, whole.ensemble)
    before = bert.state_dict()["layers.0.model.bert.embeddings.word_embeddings.weight"]
    shared = resumed.ensemble.members[2].layers[0].model.bert.embeddings
    assert shared.word_embeddings.weight.equal(before)
    loaded = tepui.load(tmp_path / "run")
    assert loaded.size() == resumed.ensemble.size()
    assert_same(loaded, whole.ensemble)


class Watching(tepui.Callback):
    """Notes what the members hold and what lies on disk after every epoch."""

    def __init__(self, ensemble, folder):
        self.ensemble, self.folder = ensemble, folder
        self.held, self.files = [], []

    def on_epoch(self, record):
        self.held.append(self.ensemble.size().total)
        self.files.append(
            {p.name: p.stat().st_size for p in self.folder.glob("checkpoint/*")}
        )


def test_three_members_take_the_room_of_one_body(tmp_path, vit):
    one = sum(p.nbytes for p in vit.parameters())
    assert one > 4 * 4.7e6
    ensemble = Ensemble.adapters(vit, LoRA(rank=4, targets=QV), 3)
    watching = Watching(ensemble, tmp_path / "run")
    how = {"epochs": 3, "keep": "best", "validation": 0.25, "callbacks": [watching]}
    run = fitted(ensemble, pictures(), out=tmp_path / "run", **how)
    loaded = tepui.load(tmp_path / "run")
    assert max(*watching.held, loaded.size().total) < 1.05 * one
    trained = sum(ensemble.size().trained)
    for files in watching.files[1:]:
        body = files.pop("frozen.safetensors")
        assert body + sum(files.values()) < 1.1 * (one + 4 * trained)
        assert sum(files.values()) < 2**20 * 3
    assert run.ensemble.logits(pictures().inputs).equal(
        loaded.logits(pictures().inputs)
    )


def test_a_body_in_bfloat16_has_adapters_in_float32(tmp_path):
    start = body().bfloat16()
    ensemble = Ensemble.adapters(start, LoRA(rank=2, targets=("1",)), 2)
    kinds = {p.requires_grad: p.dtype for p in ensemble.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
    run = fitted(ensemble, method=SAM(rho=0.1), out=tmp_path / "run")
    assert len(run.history) == 2
    loaded = tepui.load(tmp_path / "run")
    x = rows().inputs
    assert loaded.logits(x).equal(run.ensemble.logits(x))


def test_a_module_of_ones_own_is_loaded_by_what_returns_the_body(tmp_path):
    start = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
    config = peft.LoraConfig(r=2, target_modules=["0"], modules_to_save=["2"])
    ensemble = Ensemble.adapters(start, config, 2)
    run = fitted(ensemble, out=tmp_path / "run")
    loaded = tepui.load(
        tmp_path / "run",
        lambda: nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)),
    )
    assert_same(loaded, run.ensemble)


def test_members_that_are_read_apart_share_the_body(tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = transformers.BertForSequenceClassification(transformers.BertConfig(**BERT))
    whole.save_pretrained(tmp_path)
    words = f"from_huggingface(name={tmp_path}, adapter=LoRA(rank=2))"
    ensemble = Ensemble.build(read(words, "model", own=True), 2)
    assert ensemble.size().shared > 10 * ensemble.size().trained[0]
    first, second = (m.classifier.weight for m in ensemble.members)
    assert not first.equal(second)


def test_layers_that_are_not_there_are_named():
    with pytest.raises(ValueError, match=r"adapter must fit MLP: .*nowhere"):
        Ensemble.adapters(body(), LoRA(targets=("nowhere",)), 2)


@pytest.mark.parametrize(
    "words", [{"megatron_core": "os"}, {"auto_mapping": {}}, {"loftq_config": {}}]
)
def test_a_file_brings_no_code(words):
    from tepui.models.adapters import adapter_from

    with pytest.raises(ValueError, match="be left out"):
        adapter_from({"peft_type": "LORA", **words}, "file")
