"""Predictions in shards: what they hold, who writes them, and what a kill leaves."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import tepui
from tepui import metrics
from tepui.core.processes import mark
from tepui.core.storage import same_bits
from tepui.data import Arrays
from tepui.evaluation import ShardedPredictions, predict_shards
from tepui.evaluation import shards as module
from tepui.metrics import chunks
from tepui.tasks import ClassPrediction

STREAM = torch.Generator().manual_seed(0)
X, Y = torch.randn(50, 4, generator=STREAM), torch.arange(50) % 3
DATA = Arrays(X, Y)


@pytest.fixture
def ensemble():
    return tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=3, seed=13)


def predicted(ensemble, out, data=DATA, **options):
    return predict_shards(ensemble, data, out, **{"shard_size": 8, **options})


@pytest.mark.parametrize("rule", ["probability", "logit", "vote"])
def test_statistics_are_what_metrics_and_definitions_say(ensemble, rule):
    logits = ensemble.logits(X)
    found = ClassPrediction(logits, rule=rule).statistics(Y)
    mean = logits.softmax(-1).mean(0)
    probs = metrics.ensemble_probs(logits, rule=rule)
    expected = {
        "target": Y,
        "prediction": metrics.ensemble_predictions(logits, rule=rule),
        "confidence": probs.max(-1).values,
        "label_probability": mean[torch.arange(50), Y],
        "pds": metrics.pds(logits),
        "total_uncertainty": metrics.entropy(logits),
        "epistemic": metrics.mutual_information(logits),
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values)


def test_a_sample_without_a_label_has_no_probability_of_it(ensemble):
    labels = Y.clone()
    labels[3] = -1
    found = ClassPrediction(ensemble.logits(X)).statistics(labels)
    assert found["label_probability"].isnan().nonzero().tolist() == [[3]]
    with pytest.raises(ValueError, match="one class index below 3 per sample"):
        ClassPrediction(ensemble.logits(X)).statistics(Y + 1)


def test_shards_hold_the_statistics_of_all_samples(ensemble, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 30)
    found = predicted(ensemble, tmp_path, batch_size=3, logits_in="float16")
    assert found == ShardedPredictions.open(tmp_path)
    assert found.num_shards == 7
    logits = ensemble.logits(X)
    expected = ClassPrediction(logits).statistics(Y)
    for name, values in found.statistics().items():
        torch.testing.assert_close(values, expected[name])
    stored = torch.cat([shard["logits"] for shard in found.shards()], 1)
    torch.testing.assert_close(stored, logits.half(), rtol=1e-2, atol=1e-3)


def test_ranks_share_the_shards_and_write_the_same(ensemble, tmp_path):
    alone = predicted(ensemble, tmp_path / "alone")
    for rank in (2, 0, 1):
        shared = predicted(ensemble, tmp_path / "shared", rank=rank, world=3)
    assert not shared.missing
    for one, other in zip(alone.shards(), shared.shards(), strict=True):
        assert same_bits(one, other)


def test_only_missing_shards_are_computed(ensemble, tmp_path, monkeypatch):
    found, computed = predicted(ensemble, tmp_path), []
    before = found.statistics()
    found.file(2).unlink()
    found.file(5).unlink()
    of_the_dead = mark().rpartition("-")[0] + "-0"  # started at another time
    remains = tmp_path / f".shard-000002.safetensors.{of_the_dead}.tmp"
    remains.write_text("half a shard")
    with pytest.raises(ValueError, match=r"must hold all shards.*got '5 of 7'"):
        next(found.shards())
    real = module.logit_batches

    def noted(*arguments):
        computed.extend(torch.cat(arguments[-1]).tolist())
        return real(*arguments)

    monkeypatch.setattr(module, "logit_batches", noted)
    again = predicted(ensemble, tmp_path)
    assert computed == [*range(16, 24), *range(40, 48)]
    assert same_bits(again.statistics(), before)
    assert not remains.exists()


def test_a_writer_that_is_killed_goes_on(ensemble, tmp_path):
    script = f"""
        import os, signal, torch, tepui
        from tepui.evaluation import predict_shards, shards
        stream = torch.Generator().manual_seed(0)
        inputs = torch.randn(50, 4, generator=stream)
        data = tepui.data.Arrays(inputs, torch.arange(50) % 3)
        make = lambda: torch.nn.Linear(4, 3)
        ensemble = tepui.Ensemble.build(make, members=3, seed=13)
        write, calls = shards.write_tensors, []
        def killed(*arguments):
            calls.append(1)
            if len(calls) == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*arguments)
        shards.write_tensors = killed
        predict_shards(ensemble, data, {str(tmp_path / "killed")!r}, shard_size=8)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert ShardedPredictions.open(tmp_path / "killed").missing == [3, 4, 5, 6]
    resumed = predicted(ensemble, tmp_path / "killed").statistics()
    assert same_bits(resumed, predicted(ensemble, tmp_path / "whole").statistics())


def test_another_ensemble_data_or_option_is_refused_by_name(ensemble, tmp_path):
    predicted(ensemble, tmp_path)
    with pytest.raises(ValueError, match=r"shard_size must be what .* \(8\) to go on"):
        predicted(ensemble, tmp_path, shard_size=9)
    with pytest.raises(ValueError, match=r"rule must be what .* begun with"):
        predicted(ensemble, tmp_path, rule="vote")
    with pytest.raises(ValueError, match=r"probabilities must be what .* begun with"):
        predicted(ensemble, tmp_path, probabilities=True)
    with pytest.raises(ValueError, match=r"data must be what .* begun with"):
        predicted(ensemble, tmp_path, data=Arrays(X + 1, Y))
    with torch.no_grad():
        ensemble.members[1].bias.add_(1)
    with pytest.raises(ValueError, match=r"ensemble must be what .* begun with"):
        predicted(ensemble, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world": 2}, r"rank must lie in \[0, 1\], got 2"),
        ({"world": 0}, "world must be positive"),
        ({"shard_size": 0}, "shard_size must be positive"),
        ({"logits_in": "int8"}, "logits_in must be one of float32, float16, none"),
        ({"rule": "none"}, "rule must be one of"),
    ],
)
def test_bad_arguments_are_named(ensemble, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        predicted(ensemble, tmp_path, **options)


def test_a_damaged_shard_or_document_is_refused(ensemble, tmp_path):
    found = predicted(ensemble, tmp_path)
    content = bytearray(found.file(0).read_bytes())
    content[-1] ^= 1
    found.file(0).write_bytes(content)
    with pytest.raises(ValueError, match="its digest differs"):
        found.statistics()
    with pytest.raises(ValueError, match=r"shard-000000\.safetensors .*digest differs"):
        predicted(ensemble, tmp_path)
    os.truncate(tmp_path / "predictions.json", 20)
    with pytest.raises(ValueError, match=r"predictions\.json must be a JSON document"):
        ShardedPredictions.open(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file .*predictions\.json"):
        ShardedPredictions.open(tmp_path / "none")
