"""What every measure of a model promises, whatever it measures."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tepui import sharpness
from tepui.data import Arrays
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.losses import CrossEntropy, cross_entropy
from tepui.models import MLP
from tepui.sharpness import Measurement, select
from tepui.sharpness.weights import WeightVector
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


class Mapped(nn.Module):
    """The same with keyword arguments and an output with logits."""

    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x, shift):
        return Answer(self.inner(x + shift))


class Answer:
    def __init__(self, logits):
        self.logits = logits


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


@pytest.mark.parametrize("name", sorted(OF_SAMPLES))
def test_the_type_of_numbers_does_not_matter_to_each_sample(name):
    model, data = network(), classified()
    whole, of_samples = (3 * data.inputs).round().abs(), getattr(sharpness, name)
    expected = of_samples(model, Arrays(whole, data.targets))
    found = of_samples(model, Arrays(whole.to(torch.uint8), data.targets))
    assert torch.equal(found, expected)


class Counting(nn.Linear):
    """Changes a buffer in every pass, in eval mode too."""

    def __init__(self):
        super().__init__(6, 3, dtype=torch.float64)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return super().forward(x)


@pytest.mark.parametrize(
    "name", ["average_case", "input_curvature", "relative_flatness", "worst_case"]
)
def test_buffers_that_a_pass_changes_are_restored(name):
    model = Counting()
    values(name, model, classified())
    assert float(model.calls) == 0


@every_measure
def test_settings_name_the_measure_and_its_samples(name):
    for measured in several(MEASURES[name](network(), classified())):
        assert measured.settings["measure"] == name
        assert measured.settings["samples"] <= 24
        assert measured.settings["batch_size"] > 0


@every_measure
def test_another_generator_gives_another_value(name):
    model, data = network(), classified(60)
    options = {"num_samples": 20}
    first = values(name, model, data, **options)
    other = torch.Generator().manual_seed(6)
    assert not torch.equal(first, values(name, model, data, generator=other, **options))


@pytest.mark.parametrize("name", sorted(DEPEND_ON_BATCHES))
def test_batches_matter_where_samples_are_measured_together(name):
    model, data = network(), classified()
    whole, split = (values(name, model, data, batch_size=size) for size in (24, 5))
    assert not torch.allclose(whole, split, rtol=1e-6, atol=1e-9)


@every_measure
def test_inputs_may_be_mappings_and_outputs_objects_with_logits(name):
    data = classified()
    plain = values(name, network(), data)
    shift = torch.zeros(24, 6, dtype=torch.float64)
    mapped = Arrays({"x": data.inputs, "shift": shift}, data.targets)
    if name == "input_curvature":  # two inputs can be moved instead of one
        assert values(name, Mapped(), mapped) > plain
    else:
        torch.testing.assert_close(values(name, Mapped(), mapped), plain)


@every_measure
def test_a_loader_gives_its_own_batches(name):
    model, data = network(), classified()
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=6)
    measured = several(MEASURES[name](model, loader, num_samples=20))
    assert measured[0].settings["samples"] == 20
    assert measured[0].settings["batch_size"] == 6
    if name not in DEPEND_ON_BATCHES:
        whole = values(name, model, loader)
        torch.testing.assert_close(whole, values(name, model, data, batch_size=6))


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


@every_measure_but("input_curvature", "relative_flatness")
def test_a_model_without_weights_to_move_is_refused(name):
    with pytest.raises(ValueError, match="model must have trainable parameters"):
        MEASURES[name](network().requires_grad_(False), classified())


@every_measure
def test_nan_weights_are_reported(name):
    model = network()
    nn.init.constant_(model.classifier.bias, torch.nan)
    nn.init.constant_(model.norm.weight, torch.nan)
    message = r"values that the model gives must not be NaN, got \d+ NaN value"
    with pytest.raises(ValueError, match=message):
        MEASURES[name](model, classified())


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


def test_losses_and_models_that_do_not_fit_are_refused():
    data = classified()
    with pytest.raises(ValueError, match=r"loss must return one value per sample \(2,"):
        sharpness.worst_case(network(), data, loss=lambda o, t: o.sum())
    with pytest.raises(ValueError, match=r"model must return one row per sample \(2\)"):
        sharpness.worst_case(nn.Flatten(0), data)
    images = Arrays(torch.zeros(4, 6, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"model must return \(samples, classes\)"):
        sharpness.worst_case(nn.Linear(2, 3), images)


def test_weights_are_gathered_in_the_order_and_shapes_of_the_parameters():
    model = MLP(6, (4,), 3)
    weights = WeightVector(model, cross_entropy)
    named = weights.by_name(weights.vector)
    assert list(named) == [name for name, _ in model.named_parameters()]
    assert all(torch.equal(named[n], p) for n, p in model.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("large", [1.0, 1.3e5])
@pytest.mark.parametrize(
    "name", ["average_case", "sam_sharpness", "worst_case", "sample_sam_gap"]
)
def test_radii_in_half_precision_are_those_of_the_same_weights_in_float32(
    name, large, dtype
):
    """Large losses have gradients whose norm alone overflows float16."""
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)
    whole = copy.deepcopy(half).float()
    inputs = torch.randn(64, 4).to(dtype)

    def value(model, inputs):
        data = Arrays(inputs, torch.arange(64) % 3)
        loss = lambda *answers: large * cross_entropy(*answers)  # noqa: E731
        found = getattr(sharpness, name)(model, data, loss=loss, rho=0.5)
        return getattr(found, "value", found)

    found, expected = value(half, inputs), value(whole, inputs.float())
    found, expected = (torch.as_tensor(v).mean().item() for v in (found, expected))
    assert found == pytest.approx(expected, rel=0.03)


MODEL = nn.Linear(3, 2)
DATA = Arrays(torch.randn(11, 3), torch.arange(11) % 2)


def test_settings_name_measure_and_loss_and_hold_options_and_sizes():
    batches = select(MODEL, DATA, cross_entropy, 4, 10)
    settings = batches.settings("mine", rho=0.1, norm="l2")
    assert list(settings.items()) == [
        ("measure", "mine"),
        ("loss", "cross_entropy"),
        ("rho", 0.1),
        ("norm", "l2"),
        ("samples", 10),
        ("batch_size", 4),
    ]


def test_a_loss_without_a_name_is_shown_with_its_options():
    loss = CrossEntropy(0.25)
    assert select(MODEL, DATA, loss, 4).settings("mine")["loss"] == repr(loss)
    assert "0.25" in repr(loss)


def test_without_a_generator_the_same_samples_are_drawn_and_not_the_first():
    first, again = (
        torch.cat([*select(MODEL, DATA, cross_entropy, 4, 5).rows]).tolist()
        for _ in range(2)
    )
    assert first == again == sorted({*first})
    assert len(first) == 5
    assert first != list(range(5))
