"""The text path: dict batches through training, scores and evaluation."""

import pytest
import torch

import tepui
from data.mrpc_files import NOUNS
from tepui import sharpness
from tepui.data import Arrays, Tokenizer
from tepui.methods import SharpBalance
from tepui.models import Albert
from tepui.sharpness import recorder
from training.cases import one_thread

single = pytest.fixture(autouse=True)(one_thread)


def paraphrases(samples, first=0):
    """Invented pairs as tokens; some nouns make a pair one of paraphrases."""
    nouns = [NOUNS[(first + row) % len(NOUNS)] for row in range(samples)]
    tokenizer = Tokenizer(("the", "it", "came", *NOUNS), buckets=8)
    pairs = [
        (f"The {noun} came in {row}.", f"It came{' again' * (row % 3)}.")
        for row, noun in enumerate(nouns)
    ]
    inputs = tokenizer.batch(pairs)
    labels = [int(NOUNS.index(noun) % 3 > 0) for noun in nouns]
    return Arrays(inputs, torch.tensor(labels))


def model():
    return Albert(
        vocabulary=len(NOUNS) + 14, embedding=16, width=16, depth=2, heads=2, length=32
    )


@pytest.mark.slow
def test_sharpbalance_learns_pairs_and_is_evaluated(tmp_path):
    train, test = paraphrases(180), paraphrases(45, first=180)
    ensemble = tepui.Ensemble.build(model, members=2, seed=3)
    how = {"optimizer": tepui.AdamW(lr=1e-2), "device": "cpu", "progress": "none"}
    run = tepui.fit(
        ensemble,
        train,
        method=SharpBalance(rho=0.02, before="sam"),
        epochs=8,
        batch_size=24,
        out=tmp_path,
        **how,
    )
    assert max(run.history[-1].loss) < 0.7 * min(run.history[0].loss)
    report = tepui.evaluate(ensemble, test)
    majority = float(test.targets.float().mean())
    assert report.clean.accuracy > majority + 0.2
    loaded = tepui.load(tmp_path)
    assert torch.equal(loaded.logits(test.inputs), ensemble.logits(test.inputs))
    assert loaded.predict(test.inputs).probs.shape == (45, 2)


def naive_fisher(member, samples):
    """Squared gradient norms by one backward pass per sample."""
    norms = []
    for row in range(len(samples)):
        one, target = samples[row]
        logits = member(**{name: value[None] for name, value in one.items()})
        loss = torch.nn.functional.cross_entropy(logits, target[None])
        grads = torch.autograd.grad(loss, list(member.parameters()))
        norms.append(sum(g.square().sum() for g in grads))
    return torch.stack(norms)


def test_fisher_trace_of_shared_layers_is_exact():
    torch.manual_seed(0)
    member, samples = model().double().eval(), paraphrases(6)
    found = sharpness.sample_fisher_trace(member, samples, batch_size=4)
    torch.testing.assert_close(found, naive_fisher(member, samples), rtol=1e-9, atol=0)


def test_few_gradients_of_shared_layers_are_held_at_once(monkeypatch):
    torch.manual_seed(0)
    member, samples = model().double().eval(), paraphrases(5)
    calls = []
    member.register_forward_hook(lambda *_: calls.append(1))
    expected = sharpness.sample_fisher_trace(member, samples)
    at_once = len(calls)
    limit = 2 * sum(p.numel() for p in member.parameters())
    monkeypatch.setattr(recorder, "WHOLE_GRADIENT_ELEMENTS", limit)
    torch.testing.assert_close(sharpness.sample_fisher_trace(member, samples), expected)
    assert len(calls) > 2 * at_once


def _measures():
    """Every measure of a model's sharpness but that around its inputs."""
    probes = torch.Generator().manual_seed(0)
    return {
        "average_case": lambda m, d: sharpness.average_case(m, d, num_draws=3).value,
        "cka": lambda m, d: sharpness.cka([m, model()], d).value,
        "fisher_rao": lambda m, d: sharpness.fisher_rao(m, d).value,
        "sample_fisher_trace": lambda m, d: sharpness.sample_fisher_trace(m, d),
        "hessian_eigenvalues": lambda m, d: (
            sharpness.hessian_eigenvalues(m, d)[0].value
        ),
        "hessian_trace": lambda m, d: sharpness.hessian_trace(m, d, num_probes=2).value,
        "fisher_trace": lambda m, d: sharpness.fisher_trace(m, d).value,
        "ntk_logdet": lambda m, d: sharpness.ntk_logdet(m, d).value,
        "pairwise_cka": lambda m, d: sharpness.pairwise_cka([m, model()], d)[0, 1],
        "relative_flatness": lambda m, d: sharpness.relative_flatness(m, d).value,
        "sample_sam_gap": lambda m, d: sharpness.sample_sam_gap(m, d),
        "sample_hessian_trace": lambda m, d: sharpness.sample_hessian_trace(
            m, d, generator=probes, num_probes=2
        ),
        "sam_sharpness": lambda m, d: sharpness.sam_sharpness(m, d, num_draws=3).value,
        "worst_case": lambda m, d: sharpness.worst_case(m, d, num_steps=2).value,
        "sample_worst_case_gap": lambda m, d: sharpness.sample_worst_case_gap(
            m, d, num_steps=2
        ),
    }


@pytest.mark.parametrize("name", _measures())
def test_sharpness_measures_take_dict_inputs(name):
    torch.manual_seed(0)
    found = torch.as_tensor(_measures()[name](model(), paraphrases(5)))
    assert torch.isfinite(found).all()
    assert found.shape in ((), (5,))
    assert float(found.abs().sum()) > 0


INPUT_MEASURES = {"input_curvature", "sample_input_curvature"}


def test_no_measure_of_sharpness_is_forgotten():
    others = {"Measurement", "Selection", "WeightVector", "linear_cka"}
    others |= {"mean_of", "select"}  # no measures of data
    assert {*_measures()} | INPUT_MEASURES | others == {*sharpness.__all__}


@pytest.mark.parametrize("name", sorted(INPUT_MEASURES))
def test_curvature_around_inputs_needs_floating_ones(name):
    with pytest.raises(ValueError, match="dataset must have floating inputs"):
        getattr(sharpness, name)(model(), paraphrases(4))


def test_corrupting_text_is_refused():
    with pytest.raises(ValueError, match="dataset must hold images in one tensor"):
        tepui.data.corrupted(paraphrases(4))


def test_augmenting_text_is_refused():
    crop = tepui.data.RandomCrop(padding=1)
    with pytest.raises(ValueError, match="augment must be for texts, as the inputs"):
        tepui.fit(
            tepui.Ensemble.build(model, members=1),
            paraphrases(4),
            method=tepui.methods.DeepEnsemble(),
            epochs=1,
            augment=[crop],
            device="cpu",
            progress="none",
        )


def test_tokens_beyond_the_vocabulary_are_named():
    ensemble = tepui.Ensemble.build(lambda: Albert(vocabulary=5), members=1)
    message = r"model must accept samples of shape \(\d+,\), .* out of range"
    with pytest.raises(ValueError, match=message):
        tepui.fit(
            ensemble,
            paraphrases(4),
            method=tepui.methods.DeepEnsemble(),
            epochs=1,
            device="cpu",
            progress="none",
        )


def test_padding_costs_nothing_but_time():
    member, samples = model().eval(), paraphrases(4)
    wider = {
        name: torch.nn.functional.pad(value, (0, 3))
        for name, value in samples.inputs.items()
    }
    torch.testing.assert_close(member(**wider), member(**samples.inputs))
