"""Captured steps that draw random numbers do, to the bit, what eager ones do."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import tepui
from tepui.data import Arrays
from tepui.methods import GSAM, SAM, SED, DeepEnsemble, SharpBalance
from tepui.models import ViTTiny
from tepui.models.vit import SelfAttention
from training.cases import (
    ON_GPU,
    StoppedError,
    assert_same_bits,
    needs_gpu,
    state,
    stop_after,
)

CLASSES, SAMPLES = 5, 96
DEVICE = "cuda"

pytestmark = needs_gpu


class DroppingAttention(SelfAttention):
    """Attention whose kernels draw."""

    def forward(self, x):
        divided = self.projection(x).unflatten(2, (3, self.heads, -1))
        query, key, value = divided.permute(2, 0, 3, 1, 4).unbind(0)
        rate = 0.2 if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=rate)
        return self.output(mixed.transpose(1, 2).flatten(2))


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(192, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(32, 16),
        nn.Dropout(0.1),
        nn.Linear(16, CLASSES),
    )


def vit():
    """The library's own, with dropout after and inside the attention."""
    model = ViTTiny(num_classes=CLASSES, image_size=8, patch_size=4, depth=2)
    for part in model.layers:
        if isinstance(getattr(part, "branch", None), SelfAttention):
            part.branch = DroppingAttention(model.width, model.heads)
        if hasattr(part, "branch"):
            part.branch = nn.Sequential(part.branch, nn.Dropout(0.1))
    return model


def bert():
    library = pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    config = library.BertConfig(
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=16,
        num_labels=CLASSES,
    )
    return library.BertForSequenceClassification(config)


def pixels():
    stream = torch.Generator().manual_seed(0)
    values = torch.randn(SAMPLES, 3, 8, 8, generator=stream)
    return Arrays(values, torch.randint(CLASSES, (SAMPLES,), generator=stream))


def words():
    """Padded sentences: no batch is full, which would be another kernel's case."""
    stream = torch.Generator().manual_seed(0)
    ids = torch.randint(100, (SAMPLES, 16), generator=stream)
    lengths = torch.randint(4, 16, (SAMPLES, 1), generator=stream)
    mask = (torch.arange(16) < lengths).long()
    labels = torch.randint(CLASSES, (SAMPLES,), generator=stream)
    return Arrays({"input_ids": ids * mask, "attention_mask": mask}, labels)


def trained(factory, method, **how):
    ensemble = tepui.Ensemble.build(factory, members=2, seed=3)
    settings = {**ON_GPU, "epochs": 3, "optimizer": tepui.AdamW(lr=1e-3)}
    settings |= {"runner": "graph", **how}
    data = words() if factory is bert else pixels()
    return tepui.fit(ensemble, data, method=method, **settings)


METHODS = [
    DeepEnsemble(),
    SAM(rho=0.1),
    GSAM(rho=0.1, rho_min=0.05),
    SharpBalance(rho=0.1, switch_at=1),
]
COUPLED = [SED(active=2), SED(base=SAM(rho=0.1), active=2)]
MODELS = [mlp, vit, bert]


@pytest.mark.parametrize("method", [*METHODS, *COUPLED], ids=repr)
@pytest.mark.parametrize("factory", MODELS)
@pytest.mark.filterwarnings("ignore:.* the Fisher trace of BertFor")
def test_graph_equals_eager(factory, method):
    graph = trained(factory, method)
    eager = trained(factory, method, runner="eager")
    assert_same_bits(state(graph), state(eager))
    for one, other in zip(graph.history, eager.history, strict=True):
        assert one.loss == other.loss


@pytest.mark.parametrize("how", [{"accumulate": 2}, {"average": 0.7}], ids=str)
def test_options_of_a_run(how):
    graph = trained(mlp, SAM(rho=0.1), **how)
    eager = trained(mlp, SAM(rho=0.1), runner="eager", **how)
    assert_same_bits(state(graph), state(eager))


@pytest.mark.parametrize("method", [SAM(rho=0.1), METHODS[-1], SED(active=2)], ids=repr)
def test_resumed_equals_uninterrupted(tmp_path, method):
    whole = trained(vit, method)
    with pytest.raises(StoppedError):
        trained(vit, method, out=tmp_path, callbacks=[stop_after(1)])
    resumed = trained(vit, method, out=tmp_path, resume=True)
    assert_same_bits(state(whole), state(resumed))


@pytest.mark.parametrize("method", [DeepEnsemble(), SED(active=2)], ids=repr)
def test_every_step_draws_new_masks(method):
    """A graph whose masks were those of its capture would learn only half of this."""

    class Spread(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(192, CLASSES)
            self.register_buffer("kept", torch.zeros(192))

        def forward(self, x):
            mask = F.dropout(torch.ones(192, device=x.device), 0.5, self.training)
            if self.training:
                self.kept.add_(mask)
            return self.layer(x.flatten(1) * mask)

    counts = state(trained(Spread, method))
    for name in (name for name in counts if name.endswith("kept")):
        assert len(counts[name].unique()) > 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # as asked for
def test_compiled_models_draw_by_step_too():
    graph = trained(mlp, SAM(rho=0.1), compile=True)
    again = trained(mlp, SAM(rho=0.1), compile=True)
    eager = trained(mlp, SAM(rho=0.1), compile=True, runner="eager")
    assert_same_bits(state(graph), state(again))
    assert_same_bits(state(graph), state(eager))


def test_attention_in_bfloat16_draws_by_step_too():
    """Other kernels than in float32."""
    how = {"precision": "bfloat16"}
    graph = trained(vit, SAM(rho=0.1), **how)
    assert_same_bits(state(graph), state(trained(vit, SAM(rho=0.1), **how)))
    eager = trained(vit, SAM(rho=0.1), runner="eager", **how)
    for one, other in zip(graph.history, eager.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-3)


class Scaled(nn.Module):
    """Multiplies its inputs by a number that comes from elsewhere."""

    def __init__(self, draw=None):
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)
        self.draw = draw

    def forward(self, x):
        return self.layer(x.flatten(1) * self.number(x))

    def number(self, x):
        return self.draw()


class OwnGenerator(Scaled):
    def __init__(self, device):
        super().__init__()
        self.noise = torch.Generator(device).manual_seed(1)

    def number(self, x):
        drawn = torch.rand((), generator=self.noise, device=self.noise.device)
        return drawn if drawn.is_cuda else float(drawn)


class Read(Scaled):
    def number(self, x):
        return x.abs().max().item()


class Raises(Scaled):
    def number(self, x):
        if torch.cuda.is_current_stream_capturing():
            raise ValueError("not in a graph, please")
        return 2.0


class Recomputing(Scaled):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return checkpoint(
            lambda x: self.layer(self.dropout(x.flatten(1))), x, use_reentrant=False
        )


ELSEWHERE = torch.Generator()


def drawn_elsewhere():
    return float(torch.rand((), generator=ELSEWHERE))


def drawn_by_numpy():
    return np.random.rand()


REFUSED = {
    "own": (lambda: OwnGenerator("cpu"), r"a generator of its own \(noise\)"),
    "on the device": (
        lambda: OwnGenerator(DEVICE),
        r"a generator of its own \(noise\)",
    ),
    "numpy": (lambda: Scaled(drawn_by_numpy), "numpy's global state"),
    "random": (lambda: Scaled(random.random), "Python's random"),
    "elsewhere": (
        lambda: Scaled(drawn_elsewhere),
        "two forward passes of the model differ",
    ),
    "item": (Read, "capturing them failed"),
    "error": (Raises, "ValueError: not in a graph, please"),
    "checkpoint": (Recomputing, "activation checkpointing"),
}


def seeded_globally(factory, method, **how):
    random.seed(0)
    np.random.seed(0)
    return trained(factory, method, **how)


@pytest.mark.parametrize("method", [SAM(rho=0.1), SED(active=2)], ids=repr)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_would_not_repeat_runs_eagerly(name, method):
    factory, reason = REFUSED[name]
    with pytest.warns(UserWarning, match=f"run eagerly instead .*{reason}"):
        graph = seeded_globally(factory, method)
    if name != "elsewhere":  # which nothing could put back
        eager = seeded_globally(factory, method, runner="eager")
        assert_same_bits(state(graph), state(eager))


class Recurrent(nn.Module):
    """Whose dropout on a GPU comes from a state that cuDNN keeps."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(24, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, x):
        rows = x.transpose(1, 2).flatten(2)
        return self.classifier(self.layers(rows)[0][:, -1])


def test_recurrent_layers_with_dropout_run_eagerly():
    with pytest.warns(UserWarning, match="the dropout of recurrent layers"):
        trained(Recurrent, DeepEnsemble())


def test_a_failed_capture_leaves_the_device_usable():
    before = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="run eagerly instead"):
        trained(REFUSED["item"][0], SAM(rho=0.1))
    assert torch.cuda.current_stream() == before
    torch.cuda.empty_cache()
    assert torch.rand(3, device=DEVICE).isfinite().all()
    test_graph_equals_eager(mlp, SAM(rho=0.1))
