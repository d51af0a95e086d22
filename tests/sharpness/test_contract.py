"""What every measure of a model promises, whatever it measures."""

from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tepui import sharpness
from tepui.data import Arrays
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.sharpness import Measurement
from tepui.testing import check_measure
from tepui.testing.measures import _data, _network

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
    "sam_sharpness": partial(sharpness.sam_sharpness, num_draws=3),
    "worst_case": partial(sharpness.worst_case, rho=[0.1, 0.5], num_steps=6),
}
DEPEND_ON_BATCHES = {"ntk_logdet", "worst_case"}

every_measure = pytest.mark.parametrize("name", MEASURES)


def network(dtype=torch.float64):
    return _network().to(dtype)


def classified(dtype=torch.float64):
    data = _data()
    return Arrays(data.inputs.to(dtype), data.targets)


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
    first = values(name, model, noisy)
    torch.manual_seed(1)
    assert torch.equal(values(name, model, noisy), first)
    assert not torch.equal(first, values(name, model, data))


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
    loader = DataLoader(data, batch_size=4)
    with pytest.raises(ValueError, match=r"give the data set .* \(loader.dataset\)"):
        measure(model, loader)


@pytest.mark.parametrize(  # draws differ by type
    "name", sorted({*MEASURES} - {"average_case", "sam_sharpness"})
)
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
