"""Detectors of unfamiliar features against loops, scikit-learn and definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from strategies import close, modest
from tepui.metrics import Mahalanobis, NearestNeighbor, chunks


def drawn(samples, size, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    centers = 3 * torch.randn(classes, size, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (samples,), generator=generator)
    mix = torch.randn(size, size, generator=generator, dtype=torch.float64)
    noise = torch.randn(samples, size, generator=generator, dtype=torch.float64)
    new = 5 * torch.randn(7, size, generator=generator, dtype=torch.float64)
    return centers[labels] + noise @ mix, labels, new


@modest
@given(st.integers(0, 2**31), st.integers(4, 40), st.integers(2, 6), st.integers(1, 3))
def test_mahalanobis_from_its_definition(seed, samples, size, classes):
    features, labels, new = drawn(samples, size, classes, seed)
    fitted = Mahalanobis.fit(features, labels)
    present = sorted(set(labels.tolist()))
    means = {c: features[labels == c].mean(0).numpy() for c in present}
    residuals = np.stack(
        [x.numpy() - means[int(c)] for x, c in zip(features, labels, strict=True)]
    )
    reference = LedoitWolf(assume_centered=True).fit(residuals)
    assert fitted.shrinkage == pytest.approx(reference.shrinkage_, abs=1e-9)
    inverse = np.linalg.inv(reference.covariance_)
    expected = [
        min((x - m) @ inverse @ (x - m) for m in means.values()) for x in new.numpy()
    ]
    torch.testing.assert_close(
        fitted.score(new), torch.tensor(expected), rtol=1e-6, atol=1e-6
    )


@modest
@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 5))
def test_neighbors_are_those_of_scikit_learn(seed, samples, k):
    features, _, new = drawn(samples, 4, 2, seed)
    unit = (features / features.norm(dim=1, keepdim=True)).numpy()
    search = NearestNeighbors(n_neighbors=min(k, samples)).fit(unit)
    distances, _ = search.kneighbors((new / new.norm(dim=1, keepdim=True)).numpy())
    close(NearestNeighbor.fit(features, k).score(new), distances[:, -1], atol=1e-7)


def scores(features, labels, new):
    return {
        "mahalanobis": Mahalanobis.fit(features, labels).score(new),
        "nearest_neighbor": NearestNeighbor.fit(features, 3).score(new),
    }


def test_float32_agrees_with_float64_and_parts_do_not_matter(monkeypatch):
    features, labels, new = drawn(200, 6, 3, 0)
    wide = scores(features, labels, new)
    narrow = scores(features.float(), labels, new.float())
    for name, values in narrow.items():
        assert values.dtype == torch.float32
        torch.testing.assert_close(values.double(), wide[name], rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 1)
    for name, values in scores(features, labels, new).items():
        torch.testing.assert_close(values, wide[name])


def test_repeated_features_and_one_sample_stay_finite():
    features = torch.ones(5, 3)
    labels = torch.tensor([0, 0, 1, 1, 1])
    for values in scores(features, labels, torch.randn(4, 3)).values():
        assert values.isfinite().all()
    for values in scores(features[:1], labels[:1], torch.randn(4, 3)).values():
        assert values.isfinite().all()
