"""Stored logits read in runs are those that are read at once."""

import pytest
import torch
from torch import nn

import tepui
from tepui import metrics
from tepui.data import Arrays
from tepui.evaluation.stored_logits import LogitRuns
from tepui.metrics import Collection, chunks


@pytest.fixture(params=["float32", "float16"])
def folder(request, tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    test = Arrays(torch.randn(31, 4, generator=generator), torch.arange(31) % 3)
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=5, seed=1)
    how = {"shifted": {("fog", 2): test.subset(torch.arange(20))}, "ood": {"x": test}}
    tepui.evaluate(ensemble, test, out=tmp_path, logits_in=request.param, **how)
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 2 * 3 * 7)  # two members: 7 samples
    return tmp_path


@pytest.mark.parametrize("members", [1, 2, 5])
@pytest.mark.parametrize("data", [None, ("fog", 2), "x"])
def test_runs_are_the_whole_cut_as_metrics_cut_it(folder, members, data):
    stored = tepui.read_logits(folder)
    whole = {None: stored.clean, "x": (stored.ood["x"], None), **stored.shifted}[data]
    runs = [*LogitRuns.open(folder, data).of_first(members).read()]
    assert torch.equal(torch.cat([part for part, _ in runs], 1), whole[0][:members])
    if whole[1] is not None:
        assert torch.equal(torch.cat([labels for _, labels in runs]), whole[1])
    cut = [chunk.logits.shape for chunk in chunks.chunks_of(whole[0][:members])]
    assert [part.shape for part, _ in runs] == cut
    assert len(cut) > 1


def test_metrics_of_runs_are_those_of_the_whole_to_the_bit(folder):
    logits, labels = tepui.read_logits(folder).clean
    streams = Collection(nll=metrics.NLL(), kl=metrics.MeanKL())
    for run in LogitRuns.open(folder).of_first(2).read():
        streams.update(*run)
    found = streams.compute()
    assert torch.equal(found["nll"], metrics.nll(logits[:2], labels))
    assert torch.equal(found["kl"], metrics.mean_kl(logits[:2]))


def test_labels_can_be_given_to_unfamiliar_data(folder):
    runs = LogitRuns.open(folder, "x")
    assert next(runs.read())[1] is None
    labels = torch.arange(31)
    found = [given for _, given in runs.labeled(labels).read()]
    assert torch.equal(torch.cat(found), labels)
    with pytest.raises(ValueError, match="hold one label for each of 31 samples"):
        runs.labeled(labels[:30])


def test_what_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match=r"members must lie in \[1, 5\], got 6"):
        LogitRuns.open(folder).of_first(6)
    for place, name in ((folder, "y"), (tmp_path / "none", None)):
        with pytest.raises(FileNotFoundError):
            LogitRuns.open(place, name)
    with pytest.raises(ValueError, match="got 'logits/fog/9'"):
        LogitRuns.open(folder, ("fog", 9))
