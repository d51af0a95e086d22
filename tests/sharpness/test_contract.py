"""What every measure of a model promises, whatever it measures."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tepui import sharpness
from tepui.data import Arrays
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.sharpness import Measurement
from tepui.testing import check_measure

OF_SAMPLES = {
    "sample_fisher_trace",
    "sample_sam_gap",
    "sample_hessian_trace",
    "sample_input_curvature",
    "sample_worst_case_gap",
}
FOR_MEASURES = {"Measurement", "Selection", "WeightVector", "mean_of", "select"}
OF_FEATURES = {"cka", "linear_cka", "pairwise_cka"}
MEASURES = {
    "average_case": partial(sharpness.average_case, num_draws=3),
    "fisher_rao": partial(sharpness.fisher_rao, method="direct"),
    "hessian_eigenvalues": partial(sharpness.hessian_eigenvalues, num_eigenvalues=2),
    "hessian_trace": partial(sharpness.hessian_trace, num_probes=2),
    "input_curvature": partial(sharpness.input_curvature, num_probes=2),
    "fisher_trace": sharpness.fisher_trace,
    "ntk_logdet": sharpness.ntk_logdet,
    "relative_flatness": partial(sharpness.relative_flatness, feature_norm=True),
    "sam_sharpness": partial(
        sharpness.sam_sharpness, num_draws=3, perturb_buffers=True
    ),
    "worst_case": partial(sharpness.worst_case, rho=[0.1, 0.5], num_steps=6),
}
DEPEND_ON_BATCHES = {"ntk_logdet", "worst_case"}

every_measure = pytest.mark.parametrize("name", MEASURES)


def every_measure_but(*others):
    return pytest.mark.parametrize("name", sorted(set(MEASURES) - set(others)))


class Network(nn.Module):
    """BatchNorm, dropout, a frozen layer and one used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.classifier = nn.Linear(6, 3)

    def forward(self, x):
        x = torch.tanh(self.norm(self.first(torch.tanh(self.first(x)))))
        return self.classifier(self.frozen(self.dropout(x)))


def network(dtype=torch.float64):
    torch.manual_seed(0)
    model = Network()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    model.norm.eval()
    return model.to(dtype)


def classified(samples=24, dtype=torch.float64):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 6, generator=stream, dtype=torch.float64)
    return Arrays(x.to(dtype), torch.randint(3, (samples,), generator=stream))


def several(measured):
    return [measured] if isinstance(measured, Measurement) else list(measured)


def values(name, model, data, **options):
    options.setdefault("generator", torch.Generator().manual_seed(5))
    measured = several(MEASURES[name](model, data, **options))
    return torch.tensor([one.value for one in measured], dtype=torch.float64)


def test_every_public_measure_is_here():
    functions = set(sharpness.__all__) - FOR_MEASURES
    assert functions == set(MEASURES) | OF_SAMPLES | OF_FEATURES


@every_measure
def test_keeps_the_contract(name):
    check_measure(MEASURES[name], depends_on_batches=name in DEPEND_ON_BATCHES)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32], ids=str)
@every_measure
def test_the_type_of_numbers_does_not_matter(name, dtype):
    model, data = network(), classified()
    whole = (3 * data.inputs).round().abs()
    expected = values(name, model, Arrays(whole, data.targets))
    found = values(name, model, Arrays(whole.to(dtype), data.targets))
    assert torch.equal(found, expected)


class Noisy(TensorDataset):
    """A data set whose transform draws from torch's generator."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn_like(x), y


@pytest.mark.parametrize("name", ["average_case", "fisher_rao", "worst_case"])
def test_random_transforms_draw_alike_in_every_pass(name):
    model, data = network(), classified()
    noisy = Noisy(data.inputs, data.targets)
    for source in (noisy, DataLoader(noisy, batch_size=6)):
        state = torch.get_rng_state()
        first = values(name, model, source)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(1)
        assert torch.equal(values(name, model, source), first)
        assert not torch.equal(first, values(name, model, data))


@every_measure
def test_a_loader_that_shuffles_is_refused(name):
    data = classified()
    loader = DataLoader(TensorDataset(data.inputs, data.targets), shuffle=True)
    message = (
        r"dataset must keep its order.*\(shuffle=False\), got 'a loader with Random"
    )
    with pytest.raises(ValueError, match=message):
        MEASURES[name](network(), loader)


@every_measure
def test_bad_sizes_and_labels_are_named(name):
    model, data = network(), classified()
    measure = MEASURES[name]
    with pytest.raises(ValueError, match="batch_size must be positive, got 0"):
        measure(model, data, batch_size=0)
    with pytest.raises(ValueError, match="num_samples must be positive, got 0"):
        measure(model, data, num_samples=0)
    wrong = Arrays(data.inputs, data.targets + 1)
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 2\].*from 1 to 3"):
        measure(model, wrong)
    pairs = [(x, int(y)) for x, y in zip(wrong.inputs, wrong.targets, strict=True)]
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 2\]"):
        measure(model, pairs)
    with pytest.raises(ValueError, match="dataset must hold at least one sample"):
        measure(model, [])


@every_measure_but("average_case", "sam_sharpness")  # draws differ by type
def test_float32_agrees_with_float64(name):
    wide = values(name, network(), classified())
    narrow = values(name, network(torch.float32), classified(dtype=torch.float32))
    torch.testing.assert_close(narrow, wide, rtol=2e-2, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_measure
def test_a_saved_checkpoint_is_equal_on_cpu_and_gpu(name, tmp_path):
    file, data = tmp_path / "model.pt", classified()
    torch.save({"state_dict": network().state_dict()}, file)
    (here,) = ensemble_of([file], network).members
    (there,) = ensemble_of([file], network).members
    measured, expected = values(name, there.cuda(), data), values(name, here, data)
    torch.testing.assert_close(measured, expected, rtol=1e-6, atol=1e-9)
