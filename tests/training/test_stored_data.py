"""Data that stay in storage train to the same bits as the same data in memory."""

import threading

import pytest
import torch
from torch import nn

import tepui
from stored_cases import CLASSES, KINDS, in_memory, stored
from tepui.core.storage import same_bits
from tepui.data import HorizontalFlip, RandomCrop, split, split_at
from tepui.data.loading import in_order, read_ahead
from tepui.data.stored import StoredData
from tepui.methods import SED, DeepEnsemble, SharpBalance
from tepui.training.batches import ReadSource, source_of
from training.cases import StoppedError, stop_after

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning",  # a fork of a process with threads
    "ignore:member .* may not have learned",
)
CPU = torch.device("cpu")
METHODS = {
    "plain": DeepEnsemble(),
    "sharpbalance": SharpBalance(
        rho=0.1, switch_at=1, refresh_every=1, stratified=False
    ),
    "stratified": SharpBalance(rho=0.1, switch_at=1),
    "coupled": SED(weight=0.1, active=2),
}


@pytest.fixture(params=KINDS)
def pair(request, tmp_path):
    arrays = in_memory()
    return arrays, stored(request.param, arrays, tmp_path)


def net():
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(16, CLASSES))


def trained(data, method, **options):
    ensemble = tepui.Ensemble.build(net, members=3, seed=13)
    how = {"epochs": 3, "batch_size": 7, "device": "cpu", "progress": "none"}
    augment = (RandomCrop(1), HorizontalFlip())
    return tepui.fit(ensemble, data, method=method, augment=augment, **how | options)


def same_runs(first, second):
    assert same_bits(first.ensemble.state_dict(), second.ensemble.state_dict())
    assert [record.loss for record in first.history] == [
        record.loss for record in second.history
    ]
    assert first.summary == second.summary


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_run_is_that_of_the_data_in_memory(pair, method):
    arrays, data = pair
    assert isinstance(source_of(data, (), CPU, 0, CLASSES), ReadSource)
    same_runs(trained(data, method), trained(arrays, method))


def test_validation_and_splits_are_those_of_the_data_in_memory(pair):
    arrays, data = pair
    how = {"validation": 0.25, "keep": "best"}
    runs = [trained(d, METHODS["plain"], **how) for d in (data, arrays)]
    same_runs(*runs)
    one, other = ([r.validation_loss for r in run.history] for run in runs)
    assert one == other
    for divide in (lambda d: split(d, 0.3, seed=1), lambda d: split_at(d, [5, 3, 9])):
        for part, expected in zip(divide(data), divide(arrays), strict=True):
            assert isinstance(part, StoredData)
            assert torch.equal(part.targets, expected.targets)
            rows = torch.arange(len(part))
            assert torch.equal(part.raw(rows), expected.inputs)


def test_items_and_evaluations_are_those_of_the_data_in_memory(pair):
    arrays, data = pair
    for index in (0, 5, -1):
        assert all(map(torch.equal, data[index], arrays[index]))
    with pytest.raises(IndexError):
        data[len(data)]
    ensemble = trained(arrays, METHODS["plain"]).ensemble
    documents = [tepui.evaluate(ensemble, d, ood={"x": d}).document() for d in pair]
    assert documents[0] == documents[1]
    measured = [tepui.measure(ensemble, d) for d in pair]
    assert measured[0] == measured[1]


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(pair, tmp_path):
    arrays, data = pair
    method, out = METHODS["stratified"], tmp_path / "run"
    with pytest.raises(StoppedError):
        trained(data, method, out=out, callbacks=[stop_after(1)])
    resumed = trained(data, method, out=out, resume=True)
    same_runs(resumed, trained(arrays, method))


def test_batches_come_in_order_and_reading_stops_with_them(pair):
    _, data = pair
    rows = [torch.tensor([n, 23 - n]) for n in range(9)]
    before = {*threading.enumerate()}
    batches = read_ahead(data, rows, device=CPU)
    for row, batch in zip(rows[:4], batches, strict=False):
        assert torch.equal(batch.index, row)
        assert torch.equal(batch.targets, data.targets[row])
    batches.close()
    names = [thread.name for thread in {*threading.enumerate()} - before]
    assert not any(name.startswith("tepui-reading") for name in names)


def test_an_error_while_reading_reaches_the_run(pair, monkeypatch):
    _, data = pair

    def fail(self, index):
        raise OSError("the disk is gone")

    monkeypatch.setattr(type(data), "raw", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        next(in_order(data, 4, device=CPU))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_arrive_on_a_gpu_unchanged(pair):
    arrays, data = pair
    rows = [torch.randperm(24)[:5] for _ in range(20)]
    batches = read_ahead(data, rows, device=torch.device("cuda"))
    for row, batch in zip(rows, batches, strict=True):
        assert torch.equal(batch.inputs.cpu(), arrays.inputs[row])
        assert torch.equal(batch.targets.cpu(), arrays.targets[row])
