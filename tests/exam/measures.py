"""What is measured of given answers and models: ids of measures and their values."""

import torch
from torch import nn

from exam.cases import CLASSES
from exam.names import public

RULES = "probability", "logit"
BY_RULE = {
    "accuracy": {},
    "aurc": {},
    "balanced_accuracy": {},
    "brier": {},
    "ece": {"num_bins": 6},
    "ece, equal mass": {"num_bins": 7, "binning": "equal_mass"},
    "eir": {},
    "nll": {},
}
WITH_LABELS = "der", "individual_accuracy", "individual_nll"
OF_LOGITS = {
    "disagreement": {},
    "energy": {},
    "entropy": {},
    "logit_variance": {},
    "max_logit": {},
    "max_mean_probability": {},
    "mean_kl": {"symmetric": True},
    "mutual_information": {},
    "pairwise_disagreement": {},
    "pairwise_kl": {},
    "pds": {},
    "predictive_variance": {},
    "probability_variance": {},
    "unique_predictions": {},
}
OF_SCORES = {"auroc": {}, "aupr": {"positive": "in"}, "fpr95": {"positive": "in"}}
LEVELS = 0.1, 0.4, 0.8
OF_MODELS = {
    "fisher_rao": {"method": "direct"},
    "fisher_rao, model": {"method": "direct", "labels": "model", "squared": True},
    "fisher_trace": {},
    "input_curvature": {"num_probes": 60},
    "ntk_logdet": {"batch_size": 30},
    "relative_flatness": {},
    "relative_flatness, normed": {"feature_norm": True, "weight_decay": 0.01},
    "worst_case": {"rho": 0.3, "batch_size": 30},
    "worst_case, linf": {
        "rho": 0.05,
        "norm": "linf",
        "adaptive": False,
        "batch_size": 30,
    },
}
# Their random changes of the weights are measured where the loss has its minimum.
AT_MINIMUM = {
    "average_case": {"rho": 0.03, "num_draws": 400},
    "average_case, linf": {
        "rho": 0.03,
        "norm": "linf",
        "adaptive": False,
        "num_draws": 400,
    },
    "hessian_trace": {"num_probes": 60},
    "sam_sharpness": {"rho": 0.02, "num_draws": 400},
}


def answers(dtype=torch.float64, seed=1):
    """Return logits of three members that disagree, and labels, 150 samples."""
    stream = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(
        torch.tensor([0.5, 0.3, 0.2]), 150, True, generator=stream
    )
    shared = torch.randn(150, CLASSES, generator=stream, dtype=torch.float64)
    own = torch.randn(3, 150, CLASSES, generator=stream, dtype=torch.float64)
    sure = torch.tensor([0.6, 1.0, 2.5], dtype=torch.float64)[:, None, None]
    right = 1.2 * nn.functional.one_hot(labels, CLASSES)
    return (sure * (right + shared + own)).to(dtype), labels


def scores(dtype=torch.float64):
    """Return scores of familiar and of unfamiliar samples, some of them equal."""
    stream = torch.Generator().manual_seed(2)
    known = torch.randn(70, generator=stream, dtype=torch.float64)
    new = 0.8 + torch.randn(45, generator=stream, dtype=torch.float64)
    return known.mul(4).round().to(dtype), new.mul(4).round().to(dtype)


def numbers(dtype=torch.float64):
    """Return means and variances of three members, targets, quantiles, labels."""
    stream = torch.Generator().manual_seed(3)
    draws = torch.randn(8, 40, generator=stream, dtype=torch.float64)
    quantiles = torch.stack([draws[0] - 1, draws[0] - 0.2, draws[0] + 0.7], 1)
    parts = draws[1:4], draws[4:7].exp(), draws[7], quantiles
    return [part.to(dtype) for part in parts]


def model_and_data():
    """Return a smooth network in float64, with biases, and thirty samples."""
    stream = torch.Generator().manual_seed(4)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    with torch.no_grad():
        for part in model.parameters():
            part.copy_(torch.randn(part.shape, generator=stream, dtype=part.dtype))
    inputs = torch.randn(30, 4, generator=stream, dtype=torch.float64)
    labels = torch.randint(CLASSES, (30,), generator=stream)
    return model, public("data.Arrays")(inputs, labels)


def half_square(outputs, targets):
    """Return half the squared error of each sample."""
    return 0.5 * (outputs - targets).square().sum(1)


def of_answers(dtype):
    """Return the value of each measure of answers, by its id."""
    logits, labels = answers(dtype)
    known, new = scores(dtype)
    means, variances, targets, quantiles = numbers(dtype)
    metric = {
        name: public(f"metrics.{name.partition(',')[0]}")
        for name in (*BY_RULE, *WITH_LABELS, *OF_LOGITS, *OF_SCORES, *OF_NUMBERS)
    }
    found = {
        f"{name}, {rule}": metric[name](logits, labels, rule=rule, **options)
        for name, options in BY_RULE.items()
        for rule in RULES
    }
    found |= {name: metric[name](logits, labels) for name in WITH_LABELS}
    found |= {name: metric[name](logits, **how) for name, how in OF_LOGITS.items()}
    found |= {name: metric[name](known, new, **how) for name, how in OF_SCORES.items()}
    low, _, high = quantiles.unbind(1)
    of_numbers = {
        "gaussian_crps": (means, variances, targets),
        "gaussian_nll": (means, variances, targets),
        "interval_coverage": (low, high, targets),
        "rmse": (means, targets),
        "sample_crps": (means, targets),
        "rank_correlation": (targets.mul(2).round(), low),
    }
    found |= {name: metric[name](*given) for name, given in of_numbers.items()}
    found["quantile_crps"] = metric["quantile_crps"](quantiles, targets, levels=LEVELS)
    return found


OF_NUMBERS = (
    "gaussian_crps",
    "gaussian_nll",
    "interval_coverage",
    "quantile_crps",
    "rank_correlation",
    "rmse",
    "sample_crps",
)


def of_models():
    """Return the measurement of each measure of sharpness, by its id."""
    model, data = model_and_data()
    found = {
        name: public(f"sharpness.{name.partition(',')[0]}")(model, data, **options)
        for name, options in OF_MODELS.items()
    }
    with torch.no_grad():
        fitted = public("data.Arrays")(data.inputs, model(data.inputs))
    found |= {
        name: public(f"sharpness.{name.partition(',')[0]}")(
            model, fitted, loss=half_square, **options
        )
        for name, options in AT_MINIMUM.items()
    }
    eigenvalues = public("sharpness.hessian_eigenvalues")
    largest = eigenvalues(model, data, num_eigenvalues=3, tolerance=1e-8)
    lowest = eigenvalues(model, data, num_eigenvalues=2, which="SA", tolerance=1e-8)
    named = {f"eigenvalue {n}": value for n, value in enumerate((*largest, *lowest))}
    return found | named


def hexed(value):
    """Return a number or a tensor as text that holds every bit."""
    if isinstance(value, torch.Tensor):
        return " ".join(float(each).hex() for each in value.flatten().tolist())
    return float(value).hex()


def exact():
    """Return every measure's value as text, by its id."""
    found = {f"{name}, float32": v for name, v in of_answers(torch.float32).items()}
    found |= {name: each.value for name, each in of_models().items()}
    return {name: hexed(value) for name, value in found.items()}
