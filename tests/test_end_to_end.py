"""The benchmarks of whole runs and of the published procedure measure what they say."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tepui.data import Arrays
from tepui.methods import DeepEnsemble, SharpBalance
from tepui.models import ResNet18
from tepui.sharpness import sample_fisher_trace
from tepui.training import Span

ROOT = Path(__file__).parents[1]


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    names = ("end_to_end", "published_procedure")
    return {name: importlib.import_module(name) for name in names}


def batch(samples=12):
    stream = torch.Generator().manual_seed(0)
    images = torch.randn(samples, 3, 8, 8, generator=stream, dtype=torch.float64)
    return images, torch.randint(10, (samples,), generator=stream)


def test_published_scores_are_traces_of_the_fisher_matrix(scripts):
    torch.manual_seed(0)
    model, (images, labels) = ResNet18(width=2).double().eval(), batch(20)
    score = scripts["published_procedure"].published_scoring(model)
    expected = sample_fisher_trace(model, Arrays(images, labels))
    torch.testing.assert_close(score(images, labels), expected.double())


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_published_step_descends_along_both_gradients(scripts, monkeypatch, share):
    """Against the formula, on a network without BatchNorm."""
    torch.manual_seed(0)
    model, (images, labels) = nn.Linear(192, 10).double(), batch()
    images = images.flatten(1)
    weight, bias = (p.detach().clone() for p in model.parameters())

    def gradient(rows, weight, bias):
        point = [p.clone().requires_grad_() for p in (weight, bias)]
        loss = F.cross_entropy(F.linear(images[rows], *point), labels[rows])
        return torch.autograd.grad(loss, point)

    procedure, seen = scripts["published_procedure"], []
    divided = procedure.divided
    monkeypatch.setattr(
        procedure, "divided", lambda *a: seen.append(divided(*a)) or seen[-1]
    )
    step = procedure.published_mixed_step(
        model, images, labels, num_train=100, normal_share=share, rho=0.3, lr=0.1
    )
    step()
    ((calm, sharp),) = seen
    assert sorted(calm + sharp) == list(range(12))
    assert (bool(calm), bool(sharp)) == (share > 0, share < 1)
    total = [torch.zeros_like(weight), torch.zeros_like(bias)]
    if calm:
        plain = gradient(calm, weight, bias)
        total = [t + len(calm) / 12 * g for t, g in zip(total, plain, strict=True)]
    if sharp:
        here = gradient(sharp, weight, bias)
        norm = torch.cat([g.flatten() for g in here]).norm()
        moved = [p + 0.3 * g / norm for p, g in zip((weight, bias), here, strict=True)]
        aware = gradient(sharp, *moved)
        total = [t + len(sharp) / 12 * g for t, g in zip(total, aware, strict=True)]
    for found, p, g in zip(model.parameters(), (weight, bias), total, strict=True):
        torch.testing.assert_close(found.detach(), p - 0.1 * (g + 5e-4 * p))


def timeline(switch, epochs):
    """Return a cut run: one second an epoch, three after the switch."""
    spans = [Span("preparing", None, 5.0), Span("capturing", 0, 7.0)]
    for epoch in range(epochs):
        late = switch is not None and epoch >= switch
        spans.append(Span("stepping", epoch, 3.0 if late else 1.0))
    if switch is not None:
        spans += [Span("scoring", switch, 2.0), Span("capturing", switch, 4.0)]
    return [*spans, Span("saving", epochs - 1, 0.5), Span("finishing", None, 0.25)]


def test_a_whole_run_is_reckoned_from_a_cut_one(scripts):
    script = scripts["end_to_end"]
    case = script.Case(SharpBalance(switch_at=0.25), 200, 1.0)
    found = script.extrapolated(timeline(2, 8), 8, case)
    assert found == {
        "preparing": 5.0,
        "capturing": 11.0,
        "stepping, before the switch": 50.0,
        "stepping, after the switch": 450.0,
        "scoring": 2.0,
        "saving": 20 * 0.5,
        "finishing": 0.25,
    }
    plain = script.extrapolated(
        timeline(None, 3), 3, script.Case(DeepEnsemble(), 95, 1)
    )
    assert (plain["stepping"], plain["saving"]) == (95.0, 10 * 0.5)


def test_all_seconds_of_a_case_are_shown(scripts, monkeypatch, tmp_path, capsys):
    script, file = scripts["end_to_end"], tmp_path / "times.json"
    case = script.Case(DeepEnsemble(), 2, 5.0)
    monkeypatch.setitem(script.CASES, "deep_ensemble", case)
    words = "--synthetic --cases deep_ensemble --epochs 2 --width 2 --samples 64"
    monkeypatch.setattr(sys, "argv", ["", *words.split(), "--json", str(file)])
    script.main()
    found = json.loads(file.read_text())["deep_ensemble"]
    assert sum(found["whole_run"].values()) == pytest.approx(found["wall"])
    assert 0 <= found["whole_run"]["not recorded"] < 0.5 + 0.01 * found["wall"]
    shown = capsys.readouterr().out
    assert "deep_ensemble: 2 epochs, measured" in shown
    assert "bound of 5 min: kept" in shown
