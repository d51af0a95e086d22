"""Bad calls of public callables, one for every seed.

A bad call is a valid example of a callable with one argument changed: to a value out of
its range, a tensor of another shape or type, an option that does not exist; where users
come in first also to something of another type. :func:`outcome` makes the call and says
whether it was refused in our words.
"""

import importlib
import inspect
import math
import pkgutil
import random
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import tepui
from study_cases import TRIAL
from tepui import data, methods, studies, tasks, testing, theory
from tepui.data import Arrays
from tepui.metrics import Chunk
from tepui.sharpness import Measurement
from tepui.tasks import ClassPrediction

# Seconds of computing after which a call counts as at work on what it was asked for.
PATIENCE = 5
# What functions import when they are called: not in the middle of a call, where
# patience may end and leave half a module.
LATE = ("torch._dynamo", "torch._decomp.decompositions_for_jvp")
LATE += ("scipy.stats", "sklearn.datasets", "transformers")
for late in LATE:
    with suppress(ImportError):
        importlib.import_module(late)
SOURCE = str(Path(tepui.__file__).parent)
REFUSALS = (ValueError, TypeError, OSError, ImportError, tepui.TrainingDiverged)
# Where users come in first: types are checked there too.
DOORS = {
    "tepui.fit",
    "tepui.Ensemble",
    "tepui.Ensemble.build",
    "tepui.Ensemble.predict",
    "tepui.evaluate",
    "tepui.measure",
    "tepui.SGD",
    "tepui.AdamW",
    "tepui.Constant",
    "tepui.Cosine",
    "tepui.MultiStep",
    "tepui.Prune",
    "tepui.EarlyStopping",
    "tepui.data.Arrays",
    *(f"tepui.methods.{name}" for name in ("A2D", "DivDis", "GSAM", "SAM", "SED")),
    "tepui.methods.SharpBalance",
    "tepui.losses.CrossEntropy",
}


def table_file() -> Path:
    file = new_folder() / "table.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("size,sold" + 9 * "\n1,no\n2,yes")
    return file


def features(samples: int = 24, width: int = 4, classes: int = 3) -> Arrays:
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, width, generator=stream)
    return Arrays(inputs, torch.arange(samples) % classes)


def pictures(samples: int = 6) -> Arrays:
    stream = torch.Generator().manual_seed(0)
    inputs = torch.rand(samples, 3, 8, 8, generator=stream)
    return Arrays((inputs * 255).byte(), torch.arange(samples) % 3)


def network(width: int = 4, classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(width, classes)


def ensemble() -> tepui.Ensemble:
    return tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)


def logits() -> Tensor:
    return torch.randn(3, 8, 4, generator=torch.Generator().manual_seed(0))


def numbers(count: int = 5) -> list[float]:
    return [0.1 * n + 0.3 for n in range(count)]


def measured() -> Measurement:
    return Measurement(0.5, 0.1, {"measure": "worst_case"})


def frozen() -> nn.Module:
    return tepui.models.Frozen([nn.Identity()])


def saved_folder() -> Path:
    ensemble().save(folder := new_folder())
    return folder


def halving(progress: float) -> float:
    return 1 - progress / 2


def new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=".")) / "new"


# Valid arguments by their names, and for one callable where they differ.
ARGUMENTS: dict[str, Callable[[], Any]] = {
    "logits": logits,
    "views": logits,
    "labels": lambda: torch.arange(8) % 4,
    "outputs": lambda: logits()[0],
    "targets": lambda: torch.arange(8) % 4,
    "mask": lambda: torch.tensor([True, True, True, False]),
    "in_scores": lambda: torch.linspace(0, 1, 6),
    "ood_scores": lambda: torch.linspace(0.5, 2, 5),
    "scores": lambda: torch.linspace(0, 1, 6),
    "first": lambda: torch.linspace(0, 1, 6),
    "second": lambda: torch.linspace(0, 2, 6),
    "accuracies": lambda: {("fog", s): 0.5 for s in range(1, 6)},
    "num_members": lambda: 4,
    "members": lambda: 3,
    "metric": lambda: tepui.metrics.accuracy,
    "size": lambda: 2,
    "ensemble": ensemble,
    "modules": lambda: [network(), nn.Linear(4, 3)],
    "datasets": lambda: [features(), features()],
    "weights": lambda: [network().state_dict(), network().state_dict()],
    "factory": lambda: network,
    "dataset": features,
    "held_out": lambda: features(),
    "method": lambda: methods.SAM(),
    "epochs": lambda: 1,
    "model": network,
    "module": network,
    "models": lambda: [network(), nn.Linear(4, 3)],
    "loss": lambda: tepui.losses.cross_entropy,
    "batch_size": lambda: 8,
    "num_samples": lambda: 8,
    "inputs": lambda: torch.randn(6, 4),
    "mean": lambda: (0.5,),
    "std": lambda: (0.5,),
    "fraction": lambda: 0.5,
    "seed": lambda: 0,
    "images": lambda: pictures().inputs,
    "name": lambda: "fog",
    "severity": lambda: 1,
    "shape": lambda: (1, 4, 4),
    "like": pictures,
    "words": lambda: ("a", "b"),
    "buckets": lambda: 2,
    "values": numbers,
    "matrix": lambda: [[0.0, 0.1, 0.2], [0.1, 0.0, 0.3], [0.2, 0.3, 0.0]],
    "p_values": lambda: [0.01, 0.2],
    "margin": lambda: 0.5,
    "sharpness": numbers,
    "diversity": lambda: [1.0, 0.8, 0.7, 0.5, 0.4],
    "repetition": lambda: 0,
    "setting": lambda: theory.Setting(rho0=0.1, n=60, d=20, sigma2=0.1, theta_norm=1.0),
    "k": lambda: 2,
    "eta": lambda: 0.05,
    "rho": lambda: 0.05,
    "ratio": lambda: 3.0,
    "i": lambda: 1,
    "j": lambda: 1,
    "subsets": lambda: 2,
    "num_nodes": lambda: 4,
    "n": lambda: 30,
    "d": lambda: 10,
    "gram": lambda: np.eye(3),
    "start": lambda: np.ones(3),
    "teacher": lambda: np.zeros(3),
    "num_steps": lambda: 2,
    "eigenvalues": lambda: np.ones(3),
    "gradient": lambda: np.ones(3),
    "radius": lambda: 0.5,
    "matrices": lambda: 2,
    "folder": lambda: "nowhere",
    "path": lambda: "nowhere",
    "paths": lambda: ["nowhere"],
    "root": lambda: "nowhere",
    "samples": lambda: 10,
    "classes": lambda: 3,
    "params": lambda: [*network().parameters()],
    "base_optimizer": lambda: torch.optim.SGD,
    "parameters": lambda: [torch.ones(2), torch.ones(3)],
    "gradients": lambda: [torch.ones(2), torch.ones(3)],
    "layers": lambda: 1,
    "index": lambda: torch.arange(8),
    "rows": lambda: 3,
    "share": lambda: 0.5,
    "spec": lambda: methods.SAM(rho=(0.1, 0.2)),
    "member": lambda: 0,
    "value": lambda: 0.5,
    "standard_error": lambda: 0.1,
    "settings": lambda: {"measure": "worst_case"},
    "rho0": lambda: 0.1,
    "sigma2": lambda: 0.1,
    "theta_norm": lambda: 1.0,
    "chunk": lambda: Chunk(logits()),
    "state": dict,
    "test": lambda: studies.Samples(data.Digits, part="test"),
    "lr": lambda: 0.1,
    "coverage": lambda: 0.8,
    "lower": lambda: torch.zeros(8, 2),
    "upper": lambda: torch.ones(8, 2),
    "means": lambda: torch.zeros(3, 8, 2),
    "variances": lambda: torch.ones(3, 8, 2),
    "probs": lambda: logits()[0].softmax(1),
    "levels": lambda: (0.1, 0.9),
    "quantiles": lambda: torch.zeros(8, 2, 2),
    "extractor": nn.Flatten,
    "head": network,
    "pattern": lambda: tepui.models.MLP(4, (5,), 3),
    "copies": lambda: data.corrupted(pictures(), types=("fog",)),
    "out": new_folder,
    "task": lambda: tasks.Classes(),
    "files": lambda: [Path("nowhere.png")],
    "texts": lambda: ["a b", "b c", "c"],
    "trial": lambda: TRIAL,
    "trials": lambda: [TRIAL],
    "data": lambda: TRIAL.data,
    "training": lambda: TRIAL.training,
    "seeds": lambda: (0, 1),
    "function": lambda: tepui.sharpness.worst_case,
    "file": lambda: new_folder() / "table.csv",
}
NUMBERS = {"targets": lambda: torch.full((8, 2), 0.5)}
LABELS = {"targets": lambda: (torch.arange(32) % 3 == 0).float().view(8, 4)}
OVERRIDES: dict[str, dict[str, Callable[[], Any]]] = {
    "tepui.fit": {"progress": lambda: "none", "loss": tepui.losses.CrossEntropy},
    "tepui.hyperparameter_grid": {"lr": lambda: (0.1, 0.2), "values": lambda: OMITTED},
    "tepui.Ensemble.build": {"members": lambda: 2},
    "tepui.hub.from_pretrained": {"name": saved_folder, "factory": lambda: network},
    "tepui.models.without_classifier": {
        "model": lambda: nn.Sequential(network(), nn.ReLU(), nn.Linear(3, 2)),
        "inputs": lambda: features().inputs,
    },
    "tepui.metrics.restrict_classes": {"labels": lambda: torch.arange(8) % 3},
    "tepui.metrics.subset_accuracy": {"labels": lambda: torch.arange(8) % 3},
    "tepui.losses.binary_cross_entropy": LABELS,
    "tepui.losses.squared_error": {"targets": lambda: torch.zeros(8, 4)},
    "tepui.losses.gaussian_nll": NUMBERS,
    "tepui.metrics.gaussian_nll": NUMBERS,
    "tepui.metrics.gaussian_crps": NUMBERS,
    "tepui.metrics.interval_coverage": NUMBERS,
    "tepui.metrics.quantile_calibration": NUMBERS,
    "tepui.metrics.quantile_crps": NUMBERS,
    "tepui.metrics.gaussian_quantiles": {},
    "tepui.losses.pinball": NUMBERS,
    "tepui.metrics.label_auroc": LABELS,
    "tepui.metrics.label_ece": LABELS,
    "tepui.metrics.mean_average_precision": LABELS,
    "tepui.metrics.rmse": NUMBERS,
    "tepui.metrics.sample_crps": NUMBERS,
    "tepui.tasks.Quantiles": {"levels": lambda: (0.1, 0.9)},
    "tepui.metrics.pixels": {"outputs": logits},
    "tepui.tasks.ClassPrediction": {"outputs": logits},
    "tepui.tasks.LabelPrediction": {"outputs": logits},
    "tepui.tasks.QuantilePrediction": {
        "outputs": logits,
        "task": lambda: tasks.Quantiles((0.1, 0.9)),
    },
    "tepui.cached_features": {"folder": new_folder},
    "tepui.data.ImageFiles": {"targets": lambda: [0]},
    "tepui.data.Table": {"path": table_file, "target": lambda: "sold"},
    "tepui.data.Texts": {"targets": lambda: [0, 1, 0]},
    "tepui.models.OnFeatures": {"extractor": frozen},
    "tepui.models.Split": {"extractor": frozen},
    "tepui.studies.Trial": {"model": lambda: TRIAL.model},
    "tepui.studies.averaged": {
        name: lambda: "some"
        for name in ("item", "dataset", "architecture", "method", "metric", "unit")
    },
    "tepui.papers.look_up": {"name": lambda: "sharpbalance/figure7"},
    "tepui.models.Frozen": {"layers": lambda: [network()]},
    "tepui.studies.Samples": {"dataset": lambda: data.Digits},
    "tepui.data.ArraysOnDisk": {"inputs": lambda: "nowhere.npy"},
    "tepui.core.for_member": {"members": lambda: 2},
    "tepui.data.Arrays": {"targets": lambda: torch.arange(6) % 3},
    "tepui.data.Batch": {"inputs": lambda: torch.randn(8, 4)},
    "tepui.data.Corrupted": {"dataset": pictures, "types": lambda: ("fog",)},
    "tepui.data.corrupted": {"dataset": pictures, "types": lambda: ("fog",)},
    "tepui.data.prepared_like": {"dataset": pictures},
    "tepui.data.split_at": {"held_out": lambda: [1, 3]},
    "tepui.distil": {"model": lambda: network},
    "tepui.data.corrupt": {"first": lambda: 0},
    "tepui.data.UniformNoise": {"like": lambda: None},
    "tepui.data.Frame": {"size": lambda: 8},
    "tepui.data.Digits": {},
    "tepui.sharpness.linear_cka": {
        "first": lambda: torch.randn(6, 3),
        "second": lambda: torch.randn(6, 2),
    },
    "tepui.sharpness.mean_of": {"values": lambda: torch.linspace(0, 1, 5)},
    "tepui.sharpness.sam_sharpness": {"num_draws": lambda: 3},
    "tepui.sharpness.average_case": {"num_draws": lambda: 3},
    "tepui.models.split_last_layers": {"model": lambda: tepui.models.MLP(4, (5,), 3)},
    "tepui.studies.crossed_difference": {"values": lambda: torch.randn(3, 300)},
    "tepui.studies.differences": {"first": numbers, "second": numbers},
    "tepui.studies.paired_difference": {
        "first": numbers,
        "second": lambda: [0.3, 0.1, 0.5, 0.2, 0.9],
    },
    "tepui.theory.theorem2": {"subsets": lambda: 2},
    "tepui.theory.agreement": {"n": lambda: 60, "d": lambda: 20},
    "tepui.theory.eta_at_sharpness": {"sharpness": lambda: 1.0, "rho": lambda: 0.1},
    "tepui.models.Albert": {"width": lambda: 8, "depth": lambda: 1},
}
# What is not called: what functions return, long at work, for tests and messages alone.
RETURNED = {
    "tepui": "Aggregated Detection EpochRecord Evaluation GreedySoup OracleSelection "
    "Run Scores StoredLogits TrainingDiverged",
    "tepui.data": "Draws StoredArray",
    "tepui.ensembles": "Disagreements",
    "tepui.evaluation": "ByClass LogitRuns PredictionCost Selective",
    "tepui.export": "Exported",
    "tepui.methods": "ActiveMembers CoupledBatch",
    "tepui.metrics": "ClassRates ConformalIntervals ConformalSets "
    "HeldOutScores Isotonic Mahalanobis NearestNeighbor Reliability RiskCoverage "
    "TemperatureScaling VectorScaling",
    "tepui.papers": "Diagram Numbers Recipe",
    "tepui.sharpness": "Selection",
    "tepui.report": "LoadedReports",
    "tepui.studies": "Difference Estimate Finding Interval Outcome Record "
    "Results Search Slope",
    "tepui.tasks": "LabelScores NumberScores OutputScores PixelScores Scores "
    "TaskLacksError",
    "tepui.theory": "Agreement Simulation TradeOff",
    "tepui.training": "RankLost",
}
LEFT_OUT = {
    *(
        f"{package}.{name}"
        for package in RETURNED
        for name in RETURNED[package].split()
    ),
    *(f"tepui.testing.{name}" for name in testing.__all__),
    "tepui.papers.reproduce",
    "tepui.report.printed_table",
    "tepui.report.write_report",
    "tepui.studies.carry_out",
    "tepui.studies.compare",
    "tepui.studies.search",
    "tepui.studies.sweep",
    "tepui.training.train",
    "tepui.training.Ranks",
    "tepui.theory.agreement",
    *(f"tepui.models.{name}" for name in ("VGG19", "VGG19BN", "ViTSmall", "ViTTiny")),
    "tepui.models.ResNet18",
    "tepui.models.load_torchvision",
    "tepui.models.WideResNet40x2",
    "tepui.core.derive",
    "tepui.core.one_of",
    "tepui.core.per_member",
    "tepui.core.require",
    "tepui.core.seeded",
    "tepui.export.export_ensemble",
}
OMITTED = object()


def packages() -> list[Any]:
    """Return tepui and its packages."""
    return [tepui] + [
        importlib.import_module(f"tepui.{part.name}")
        for part in pkgutil.iter_modules(tepui.__path__)
        if part.name != "__main__"
    ]


@cache
def callables() -> dict[str, Callable[..., Any]]:
    """Return what can be called with an example, by its public name.

    Raises:
        KeyError: If an argument has no example.
    """
    found: dict[str, Callable[..., Any]] = {
        "tepui.Ensemble.build": tepui.Ensemble.build,
        "tepui.Ensemble.predict": _predict,
        "tepui.Prediction.ood_score": _ood_score,
    }
    known = {id(item) for item in found.values()}
    for package in packages():
        for name in getattr(package, "__all__", ()):
            item, path = getattr(package, name), f"{package.__name__}.{name}"
            if id(item) in known:
                continue
            known.add(id(item))
            if path not in LEFT_OUT and _has_an_example(path, item):
                found[path] = item
    return dict(sorted(found.items()))


def _predict(inputs: Any, rule: Any = "probability", batch_size: Any = 1024) -> Any:
    return ensemble().predict(inputs, rule=rule, batch_size=batch_size)


def _ood_score(score: Any = "pds") -> Any:
    return ClassPrediction(logits()).ood_score(score)


def _has_an_example(path: str, item: Any) -> bool:
    if not callable(item) or inspect.ismodule(item) or inspect.isabstract(item):
        return False
    if not (inspect.isfunction(item) or inspect.isclass(item)):
        return False
    if getattr(item, "_is_protocol", False):
        return False
    return bool(example(path, item))


def example(path: str, item: Callable[..., Any]) -> dict[str, Any]:
    """Return valid arguments of a callable.

    Raises:
        KeyError: If one of them is not known.
    """
    own, arguments = OVERRIDES.get(path, {}), {}
    for name, parameter in inspect.signature(item).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in own:
            arguments[name] = own[name]()
        elif parameter.default is parameter.empty:
            arguments[name] = ARGUMENTS[name]()
        else:
            small = name in ("batch_size", "num_samples") and name in ARGUMENTS
            arguments[name] = ARGUMENTS[name]() if small else parameter.default
    extra = {name: build() for name, build in own.items() if name not in arguments}
    return {n: v for n, v in (arguments | extra).items() if v is not OMITTED}


def bad_call(seed: int) -> tuple[str, dict[str, Any], str]:
    """Return a callable's name, its arguments, and which of them is bad."""
    draw = random.Random(f"calls {seed}")
    known = callables()
    paths = [*known]
    # Every other call goes to where users come in first.
    doors = [path for path in paths if path in DOORS]
    path = draw.choice(doors) if seed % 2 else draw.choice(paths)
    arguments = example(path, known[path])
    name = draw.choice([*arguments])
    hint = inspect.signature(known[path]).parameters.get(name)
    annotation = None if hint is None else hint.annotation
    choices = [*changes(name, arguments[name], annotation)] or [arguments[name]]
    if path in DOORS:
        choices += foreign_types(arguments[name])
    return path, arguments | {name: draw.choice(choices)}, name


def changes(name: str, value: Any, annotation: Any = None) -> Iterator[Any]:
    """Yield bad values in the place of a good one."""
    if get_origin(annotation) is Literal or isinstance(value, str):
        yield from ("", "nonsense", f"{value} ")
    elif isinstance(value, bool) or (value is None and bool in get_args(annotation)):
        yield not value
    elif isinstance(value, int | float):
        yield from (-1, 0, -0.5, math.nan, math.inf, -math.inf, 1e300, value + 1e5)
    elif isinstance(value, Tensor):
        yield from _changed_tensors(value)
    elif isinstance(value, np.ndarray):
        yield from (value[:0], value[:-1], value * math.nan, value[None], -value)
    elif isinstance(value, Arrays | Dataset):
        yield from _changed_data(value)
    elif isinstance(value, nn.Module):
        yield from (network(7), network(classes=1), nn.Identity(), nn.Flatten(0))
    elif isinstance(value, Mapping):
        yield from ({}, dict.fromkeys(value, math.nan))
    elif isinstance(value, list | tuple):
        yield from _changed_lists(value)
    elif callable(value):
        yield from (lambda *_, **__: None, lambda *_, **__: math.nan)
    else:
        yield from _in_the_place_of_none(annotation)


def _in_the_place_of_none(annotation: Any) -> Iterator[Any]:
    """Yield values of a type that may stand there, out of its range."""
    kinds = [*get_args(annotation), annotation]
    if int in kinds or float in kinds:
        yield from (-1, 0, math.nan, math.inf)
    if str in kinds or Path in kinds:
        yield from ("", "nonsense")
    if Tensor in kinds:
        yield from (torch.zeros(0), torch.zeros(2, 2), torch.zeros(()))


def _changed_tensors(value: Tensor) -> Iterator[Tensor]:
    yield from (value[:0], value[:-1], value[None], value.flatten(), value[..., None])
    yield from (torch.zeros(()), value.float() * math.nan, value.float() * 1e38)
    yield from (value.float() + math.inf, value.to(torch.complex64), -value.float() - 9)
    yield from (value.double(), value.half(), value.long() + 1000, value.bool())


def _changed_data(value: Any) -> Iterator[Any]:
    inputs, targets = value.inputs, value.targets
    floats = inputs.float()
    yield from (Arrays(inputs, targets.float()), Arrays(inputs, targets + 1000))
    yield from (Arrays(inputs, targets[:, None]), Arrays(inputs, -targets - 1))
    yield from (Arrays(floats * math.nan, targets), Arrays(floats * math.inf, targets))
    yield from (Arrays(inputs[:1], targets[:1]), Arrays(inputs[:, :1], targets))
    yield from (Arrays({"x": inputs}, targets), Arrays(inputs[..., None], targets))
    yield Arrays(inputs, torch.eye(3)[targets % 3] + torch.eye(3)[(targets + 1) % 3])


def _changed_lists(value: Any) -> Iterator[Any]:
    kind = type(value)
    yield from (kind(()), kind([*value, *value]), kind([*value][:1]))
    if value and all(isinstance(item, int | float) for item in value):
        yield from (kind([math.nan] * len(value)), kind([-1] * len(value)))
        yield from (kind([0] * len(value)), kind([math.inf, *value[1:]]))


def foreign_types(value: Any) -> list[Any]:
    """Return values of other types."""
    strange = [None, "3", "nonsense", object(), [], {}, b"x", 3 + 1j, int, 2**70, [[1]]]
    strange += [torch.zeros(2), np.zeros(2), True, lambda: None, slice(3), (1, "a")]
    return [item for item in strange if type(item) is not type(value)]


def outcome(seed: int) -> str:
    """Make one bad call; return what came of it.

    Returns:
        "refused", "accepted", "at work" (accepted, and not done soon), or what went
        wrong, beginning with "foreign" or "unnamed".
    """
    path, arguments, name = bad_call(seed)

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return called(callables()[path], arguments, name)


def called(function: Callable[..., Any], arguments: dict[str, Any], name: str) -> str:
    """Call a function, and say what came of it."""
    try:
        with _patience():
            result = function(**arguments)
            if isinstance(result, AbstractContextManager):
                with result:
                    pass
    except TimeoutError as error:
        return "at work" if "patience" in str(error) else f"foreign: {error!r}"
    except REFUSALS as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        of_a_file = isinstance(error, OSError) and error.filename is not None
        if type(error).__module__.startswith("requests"):  # which names the address
            return "refused"
        if not (where.startswith(SOURCE) or of_a_file):
            return f"foreign: {type(error).__name__}: {error} in {where}"
        words = [name, *ALSO_NAMED.get(name, ()), "nowhere", "not in"]
        if isinstance(arguments[name], str) and len(arguments[name]) > 3:
            words.append(arguments[name])
        named = any(word in str(error) for word in words)
        named |= isinstance(error, ImportError)
        return "refused" if named else f"unnamed: {error}"
    except Exception as error:
        if "patience" in str(error):
            return "at work"
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        return f"foreign: {type(error).__name__}: {error} in {where}"
    return "accepted"


# What a message may name instead of the argument that carries it.
DATA = ("labels", "inputs", "dataset", "targets", "images", "members", "logits")
DATA += ("loss", "model", "samples", "held_out", "outputs")
ALSO_NAMED = {
    "dataset": DATA,
    "held_out": (*DATA, "dataset"),
    "ensemble": DATA,
    "shifted": ("must map",),
    "model": (*DATA, "module", "parameters"),
    "models": (*DATA, "module"),
    "module": (*DATA, "model"),
    "modules": (*DATA, "member"),
    "outputs": ("targets", "logits"),
    "targets": (
        *("labels", "outputs", "inputs", "dataset", "means", "probs", "quantiles"),
    ),
    "files": ("targets",),
    "pretrained": ("name",),
    "texts": ("targets",),
    "extractor": DATA,
    "out": ("must exist", "is not empty"),
    "inputs": ("targets", "dataset", "outputs", "samples", "must exist", "no image"),
    "loss": ("losses", "targets"),
    "labels": ("logits",),
    "logits": ("labels", "mask"),
    "first": ("second",),
    "like": ("images", "dataset"),
    "mean": ("std",),
    "factory": ("module", "member"),
    "types": ("name", "severities"),
    "name": ("types", "corruption", "task", "levels"),
    "levels": ("task", "targets"),
    "axis": ("outputs",),
    "method": ("members", "base"),
    "size": ("members",),
    "k": ("eta", "setting"),
    "setting": ("eta", "k"),
    "params": ("parameters",),
    "gradients": ("parameters",),
    "parameters": ("gradients",),
    "optimizer": ("lr",),
    "severities": ("severity", "types"),
    "members": ("member",),
    "path": ("must exist", "must hold", "no file", "holds no"),
    "paths": ("runs",),
    "folder": ("must exist", "must hold", "no file", "No such file"),
    "validation": DATA,
    "rho": ("model",),
    "step": ("model",),
    "sharpness": ("diversity",),
}


@contextmanager
def _patience() -> Iterator[None]:
    """Interrupt a call that takes long: it has accepted what it was given."""

    def ring(*_: Any) -> None:
        raise TimeoutError("the test's patience ended")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
