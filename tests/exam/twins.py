"""Every measure once more: as plainly as it is defined, in float64, one by one."""

from itertools import combinations, pairwise, permutations, product

import numpy as np
import torch
from scipy import stats
from scipy.integrate import quad

from exam.measures import AT_MINIMUM, LEVELS, OF_MODELS, half_square
from sklearn import metrics


def softmax(values):
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def joint(logits, rule):
    """Return the ensemble's probabilities, ``(samples, classes)``."""
    return softmax(logits).mean(0) if rule == "probability" else softmax(logits.mean(0))


def pairs(members):
    return list(combinations(range(members), 2))


def gaps(confidence, hits, edges):
    """Return the size and the gap of each bin that holds a sample."""
    found = []
    for low, high in pairwise(edges):
        inside = [n for n, c in enumerate(confidence) if low <= c < high]
        if inside:
            gap = abs(np.mean(hits[inside]) - np.mean(confidence[inside]))
            found.append((len(inside), gap))
    return found


def of_ensemble(logits, labels, rule):
    """Return the value of each metric that joins members by a rule."""
    probs = joint(logits, rule)
    samples = len(labels)
    confidence, predicted = probs.max(1), probs.argmax(1)
    right = predicted == labels
    error, members = 1 - right.mean(), (logits.argmax(2) != labels).mean()
    order = np.argsort(-confidence)
    risks = [1 - right[order[:k]].mean() for k in range(1, samples + 1)]
    even = gaps(confidence, right, [*np.linspace(0, 1, 7)[:-1], np.inf])
    ranked = np.sort(confidence)
    starts = [ranked[b * samples // 7] for b in range(7)]
    equal = gaps(confidence, right, [*starts, np.inf])
    of_label = probs[np.arange(samples), labels]
    return {
        "accuracy": right.mean(),
        "aurc": np.mean(risks),
        "balanced_accuracy": np.mean([right[labels == c].mean() for c in range(3)]),
        "brier": ((probs - np.eye(3)[labels]) ** 2).sum(1).mean(),
        "ece": sum(size * gap for size, gap in even) / samples,
        "ece, equal mass": sum(size * gap for size, gap in equal) / samples,
        "eir": (members - error) / members,
        "nll": -np.log(of_label).mean(),
    }


def of_members(logits, labels):
    """Return the value of each metric of the members themselves."""
    each, chosen = softmax(logits), logits.argmax(2)
    samples = len(labels)
    mean = each.mean(0)
    own = [-(p * np.log(p)).sum(1) for p in each]
    whole = -(mean * np.log(mean)).sum(1)
    differ, far = np.zeros((3, 3)), np.zeros((3, 3))
    for i, j in permutations(range(3), 2):
        differ[i, j] = (chosen[i] != chosen[j]).mean()
        far[i, j] = (each[i] * np.log(each[i] / each[j])).sum(1).mean()
    disagreement = np.mean([differ[i, j] for i, j in pairs(3)])
    return {
        "der": disagreement / (chosen != labels).mean(),
        "individual_accuracy": (chosen == labels).mean(1),
        "individual_nll": [-np.log(p[np.arange(samples), labels]).mean() for p in each],
        "disagreement": disagreement,
        "energy": -np.log(np.exp(logits).sum(2)).mean(0),
        "entropy": whole,
        "logit_variance": logits.var(0, ddof=1).sum(1).mean(),
        "max_logit": logits.max(2).mean(0),
        "max_mean_probability": mean.max(1),
        "mean_kl": np.mean([far[i, j] + far[j, i] for i, j in pairs(3)]),
        "mutual_information": whole - np.mean(own, 0),
        "pairwise_disagreement": differ,
        "pairwise_kl": far,
        "pds": each.max(0).mean(1),
        "predictive_variance": each.var(0, ddof=1).sum(1),
        "probability_variance": each.var(0, ddof=1).sum(1).mean(),
        "unique_predictions": np.mean([len({*column}) for column in chosen.T]),
    }


def of_scores(known, new):
    """Return the value of each metric of two sets of scores."""
    new_is_positive = np.repeat([0, 1], [len(known), len(new)])
    both = np.concatenate([known, new])
    needed = np.ceil(0.95 * len(known))
    threshold = min(t for t in known if (known <= t).sum() >= needed)
    return {
        "auroc": metrics.roc_auc_score(new_is_positive, both),
        "aupr": metrics.average_precision_score(1 - new_is_positive, -both),
        "fpr95": (new <= threshold).mean(),
    }


def of_numbers(means, variances, targets, quantiles):
    """Return the value of each metric of predicted numbers."""
    low, _, high = quantiles.T
    deviations = np.sqrt(variances)

    def crps(sample):
        center, width, y = means[:, sample], deviations[:, sample], targets[sample]

        def squared(z, level):
            return (stats.norm.cdf(z, center, width).mean() - level) ** 2

        bound = 12 * width.max() + np.abs([*center, y]).max()
        below = quad(squared, -bound, y, args=(0,), limit=300, epsabs=1e-10)[0]
        return below + quad(squared, y, bound, args=(1,), limit=300, epsabs=1e-10)[0]

    def pinball(level, quantile):
        gap = targets - quantile
        return np.where(gap > 0, level * gap, (level - 1) * gap).mean()

    def of_draws(sample):
        values, y = means[:, sample], targets[sample]
        spread = np.mean([abs(a - b) for a, b in product(values, values)])
        return np.mean(abs(values - y)) - spread / 2

    every = range(len(targets))
    return {
        "gaussian_crps": np.mean([crps(sample) for sample in every]),
        "gaussian_nll": -np.log(
            stats.norm.pdf(targets, means, deviations).mean(0)
        ).mean(),
        "interval_coverage": ((low <= targets) & (targets <= high)).mean(),
        "quantile_crps": 2 * np.mean([*map(pinball, LEVELS, quantiles.T)]),
        "rank_correlation": stats.spearmanr(np.round(2 * targets), low).statistic,
        "rmse": np.sqrt(((means.mean(0) - targets) ** 2).mean()),
        "sample_crps": np.mean([of_draws(sample) for sample in every]),
    }


class Dense:
    """A model's loss as a function of one vector, with dense derivatives."""

    def __init__(self, model, data, loss):
        self.model, self.data, self.loss = model, data, loss
        self.shapes = {name: part.shape for name, part in model.named_parameters()}
        self.here = torch.cat([p.detach().flatten() for p in model.parameters()])

    def outputs(self, vector, inputs):
        sizes = [shape.numel() for shape in self.shapes.values()]
        cut = zip(self.shapes.items(), vector.split(sizes), strict=True)
        named = {name: part.view(shape) for (name, shape), part in cut}
        return torch.func.functional_call(self.model, named, (inputs,))

    def losses(self, vector):
        return self.loss(self.outputs(vector, self.data.inputs), self.data.targets)

    def hessian(self):
        return torch.func.hessian(lambda v: self.losses(v).mean())(self.here)

    def slopes(self):
        return torch.func.jacrev(self.losses)(self.here)

    def largest_rise(self, scale, rho, norm):
        """Return the highest of many long ascents within the neighborhood."""

        def rise(point):
            return self.losses(self.here + scale * point).mean()

        stream = torch.Generator().manual_seed(0)
        best, start = 0.0, rise(torch.zeros_like(scale))
        for _ in range(3):
            point = torch.randn(len(scale), generator=stream, dtype=scale.dtype)
            for step in range(80):
                slope = torch.func.grad(rise)(point)
                length = rho / (1 + step / 10)
                if norm == "linf":
                    point = (point + length * slope.sign()).clamp(-rho, rho)
                else:
                    point = point + length * slope / slope.norm()
                    point = point * min(1, rho / point.norm())
            best = max(best, float(rise(point) - start))
        return best


def of_models(model, data, loss):
    """Return the value of each measure of sharpness that has an exact one."""
    dense = Dense(model, data, loss)
    hidden, last = model[1](model[0](data.inputs)).detach(), model[2]
    probs = model(data.inputs).softmax(1).detach()
    along = dense.slopes() @ dense.here

    def flatness(features, weight):
        def loss_of(w):
            return loss(features @ w.T + last.bias.detach(), data.targets).mean()

        blocks = torch.func.hessian(loss_of)(weight)
        return float(torch.einsum("si,ti,sjtj->", weight, weight, blocks))

    weight, spread = last.weight.detach(), hidden.std(0, correction=0)

    def summed(vector):
        return dense.outputs(vector, data.inputs).sum(1)

    rows = torch.func.jacrev(summed)(dense.here)

    expected = 0.0
    for row in range(30):
        for label in range(3):
            one = Dense(model, data, loss)
            one.data = type(data)(data.inputs[row : row + 1], torch.tensor([label]))
            square = float(one.slopes()[0] @ dense.here) ** 2
            expected += float(probs[row, label]) * square / 30

    decay = 2 * 0.01 * float((weight * spread).square().sum())
    values = torch.linalg.eigvalsh(dense.hessian()).flip(0)
    found = {
        "fisher_rao": float(along.square().mean().sqrt()),
        "fisher_rao, model": expected,
        "fisher_trace": float(dense.slopes().square().sum(1).mean()),
        "ntk_logdet": float(torch.linalg.slogdet(rows @ rows.T).logabsdet),
        "relative_flatness": flatness(hidden, weight),
        "relative_flatness, normed": flatness(hidden / spread, weight * spread) + decay,
    }
    extreme = [*values[:3], *values.flip(0)[:2]]
    return found | {f"eigenvalue {n}": float(v) for n, v in enumerate(extreme)}


def rises_of_models(model, data, loss):
    """Return the largest rises of the loss that long ascents find."""
    dense = Dense(model, data, loss)
    free = torch.ones_like(dense.here)
    radii = {name: how["rho"] for name, how in OF_MODELS.items() if "rho" in how}
    ball, cube = radii["worst_case"], radii["worst_case, linf"]
    return {
        "worst_case": dense.largest_rise(dense.here.abs(), ball, "l2"),
        "worst_case, linf": dense.largest_rise(free, cube, "linf"),
    }


def drawn_of_models(model, data):
    """Return means of what is drawn at a minimum, and the error of so many draws."""
    dense = Dense(model, data, half_square)
    H, size = dense.hessian(), dense.here.abs()
    probes = AT_MINIMUM["hessian_trace"]["num_probes"]
    off = H - H.diagonal().diag()
    found = {"hessian_trace": (H.trace(), off.square().sum().mul(2 / probes).sqrt())}
    for name, scale, moments in (
        ("average_case", size, (1, 3)),
        ("average_case, linf", torch.ones_like(size), (1 / 3, 1 / 5)),
        ("sam_sharpness", torch.ones_like(size), (1, 3)),
    ):
        second, fourth = moments
        how = AT_MINIMUM[name]
        Q = 0.5 * how["rho"] ** 2 * scale * H * scale[:, None]
        own = Q.diagonal()
        spread = 2 * second**2 * (Q.square().sum() - own.square().sum())
        spread += (fourth - second**2) * own.square().sum()
        found[name] = (second * own.sum(), (spread / how["num_draws"]).sqrt())
    return {name: tuple(map(float, pair)) for name, pair in found.items()}


def input_curvature(model, data, loss, step=1e-3):
    """Return the mean over all signs of an input, and the error of sixty of them."""

    def slopes(inputs):
        total = loss(model(inputs), data.targets).sum()
        return torch.autograd.grad(total, inputs)[0]

    inputs = data.inputs.clone().requires_grad_()
    ways = torch.tensor([*product([-1.0, 1.0], repeat=4)], dtype=torch.float64)
    moved = [slopes(inputs + step * way) - slopes(inputs) for way in ways]
    means = torch.stack([change.norm(dim=1).mean() for change in moved])
    probes = OF_MODELS["input_curvature"]["num_probes"]
    return float(means.mean()), float(means.std() / probes**0.5)
