"""Hand-made results that support, refute or leave open each claim."""

from dataclasses import replace
from itertools import product

from tepui.studies.results import Record, averaged

# A swing between repetitions that leaves every mean as it is.
SWING = (1.0, -1.0, 0.5, -0.5, 1.0, -1.0)
SHARPNESS = ("fisher_rao", "sam_sharpness", "relative_flatness")
CONTROLS = ("augmentation", "weight_decay")


def repeated(item, method, metric, mean, swing=0.0, dataset="cifar10", **at):
    """A mean over six repetitions."""
    return averaged(
        [mean + swing * each for each in SWING],
        [],
        item=item,
        dataset=dataset,
        architecture="resnet18",
        method=method,
        metric=metric,
        unit="none",
        at=at,
    )


RADII = (0.05, 0.1, 0.15, 0.2)


def swept(
    item,
    slope,
    swing=0.02,
    config_hash="",
    measure="worst_case",
    diversity="der",
    **axes,
):
    """Ensembles over radii, about a line in logarithms; beyond 0.2 they break."""
    names = {"item": item, "dataset": "cifar10", "architecture": "resnet18"}
    at = {"ensemble_size": 3, **axes}
    for rho in (*RADII, 0.4):
        sharp = 1 / rho
        diverse = sharp**slope if rho in RADII else 1e6
        x = repeated(
            item, "sam", "sharpness", sharp, rho=rho, sharpness_measure=measure, **at
        )
        y = repeated(
            item,
            "sam",
            diversity,
            diverse,
            swing * diverse,
            dataset="cifar10_c",
            rho=rho,
            **at,
        )
        yield from (x, y)
    measures = {"sharpness_measure": measure, "diversity": diversity}
    yield Record(
        **names,
        method="sam_rho_sweep",
        metric="beta",
        value=9.0,
        unit="none",
        n=1,
        at={**at, **measures},
        config_hash=config_hash,
    )


def duel(items, metric, winner, rivals, way, *, size=1.0, **at):
    """The winner ahead of its rivals, behind, or neither."""
    swing = 0.2 * size
    for item in items:
        yield repeated(item, winner, metric, 70 + way * size, swing, **at)
        for rival in rivals:
            yield repeated(item, rival, metric, 70, **at)


def lead(items, axis, places, way):
    """A lead that grows along an axis, shrinks, or stays; it swings with the axis."""
    metric = "ensemble_accuracy"
    for item, place in product(items, places):
        head = 70 + (way * 0.5 + 2) * place
        at = {axis: place}
        yield repeated(item, "sharpbalance", metric, head, 0.1 * place, **at)
        yield repeated(item, "sam", metric, 70 + 2 * place, **at)


def sized(leads):
    """Leads over both baselines by members; with one, SharpBalance is SAM."""
    metric = "ensemble_accuracy"
    for size, ahead in enumerate((0, *leads), 1):
        item, base, swing = "sharpbalance/figure8", 70 + 2 * size, 0.1 * (size - 1)
        at = {"ensemble_size": size}
        yield repeated(item, "sharpbalance", metric, base + ahead, swing, **at)
        yield repeated(item, "sam", metric, base, **at)
        yield repeated(item, "deep_ensemble", metric, base - 1, **at)


def ahead(items, by, swing=0.2):
    """SharpBalance ahead of both baselines by some points."""
    for item in items:
        metric = "ensemble_accuracy"
        yield repeated(item, "sharpbalance", metric, 70 + by, swing)
        for rival in ("sam", "deep_ensemble"):
            yield repeated(item, rival, metric, 70)


def gain(way):
    """The claim is about one of the data sets; the other says the opposite."""
    for dataset, turn in (("cifar10_c", -1), ("cifar100_c", 1)):
        at = {"dataset": dataset, "ensemble_size": 5}
        item, metric = "sharpbalance/figure8", "ensemble_accuracy"
        yield repeated(item, "sharpbalance", metric, 70 + turn * way, 0.2, **at)
        yield repeated(item, "sam", metric, 70, **at)
        yield repeated(item, "deep_ensemble", metric, 69, **at)


def falling(way):
    for metric, method, size in product(
        ("ece", "nll"), ("deep_ensemble", "sam", "sharpbalance"), (1, 2, 3, 4)
    ):
        values = (metric, 5 - way * 0.1 * size, 0.01 * size)
        yield repeated("sharpbalance/figure15", method, *values, ensemble_size=size)


def ordered(way):
    """With one member, SharpBalance is SAM."""
    for metric, (place, method), size in product(
        ("ece", "nll"), enumerate(("deep_ensemble", "sam", "sharpbalance")), (1, 2, 3)
    ):
        rank = min(place, size)
        values = (metric, 5 - way * rank, 0.1 * rank)
        yield repeated("sharpbalance/figure15", method, *values, ensemble_size=size)


def gsam(way):
    """Each of them ahead of the one before, behind, or neither."""
    order = ("sam", "gsam", "sharpbalance", "sharpbalance_gsam")
    for rank, method in enumerate(order):
        values = ("ensemble_accuracy", 70 + way * rank, 0.2 * rank)
        yield repeated("sharpbalance/table7", method, *values)


def detector(way, rivals):
    for dataset in ("imagenet_c1", "inaturalist"):
        at = {"dataset": dataset, "ensemble_size": 5}
        item = "sed/table3"
        yield repeated(
            item, "sed_a2d", "auroc", 0.7 + 0.1 * way, 0.02, score="PDS", **at
        )
        for method, score in rivals:
            yield repeated(item, method, "auroc", 0.7, score=score, **at)


def shifted(metric, item, way, rivals):
    aggregations = ("oracle selection", "prediction ensemble", "uniform soup")
    for aggregation, size in product(aggregations, (5, 50)):
        at = {"aggregation": aggregation, "ensemble_size": size}
        at["dataset"] = "imagenet_a"
        yield from duel([item], metric, "sed_a2d", rivals, way, **at)
    # If fifty members lose on clean data no claim about shifted data is hurt.
    at = {"aggregation": "uniform soup", "ensemble_size": 50, "dataset": "imagenet_val"}
    yield from duel([item], metric, "sed_a2d", rivals, -1, **at)


def enveloped(way):
    for record in shifted("accuracy", "sed/table2", way, ["a2d"]):
        if record.dataset != "imagenet_val":
            mean, at = record.value, dict(record.at)
            swing = 0.2 if record.method == "sed_a2d" else 0.0
            mean -= 0.5 * (record.method == "sed_a2d")
            names = (record.item, record.method, record.metric, mean, swing)
            yield repeated(*names, dataset=record.dataset, **at)


def jump(way):
    places = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    for metric in ("pds", "auroc"):
        level = 0.2
        for index, place in enumerate(places):
            level += 0.3 * way if place in (1.0, 10.0) else 0.03 * (index > 0) * way
            swing = 0.04 if place in (10.0, 100.0) else 0.001
            names = ("sed/figure3", "sed_a2d", metric, level, swing)
            yield repeated(*names, **{"lambda": place})


def growing(way):
    """On C-1; other sets say the opposite."""
    for size, (dataset, turn) in product(
        (2, 3, 5, 10), (("imagenet_c1", 1), ("inaturalist", -1))
    ):
        values = ("auroc", 0.7 + turn * way * 0.01 * size, 0.001 * size)
        at = {"dataset": dataset, "ensemble_size": size}
        yield repeated("sed/figure4", "sed_a2d", *values, **at)


def timed(methods, claimed, other, edge):
    def make(way):
        exponent = {1: claimed, -1: other, 0: edge}[way]
        for method, size in product(methods, (2, 4, 8, 16)):
            values = ("step_milliseconds", size**exponent)
            swing = 0.01 * size * values[1]
            yield repeated("sed/figure4", method, *values, swing, ensemble_size=size)

    return make


def controls(performance, sharpness, way):
    """Six controls; regularized ones are more accurate, safer or sharper by a way."""
    tables = [f"rethinking/table{number}" for number in (1, 2, 4, 5, 7, 8)]
    signs = {"accuracy": 1, "ece": -1, "corruption_accuracy": 1, "disagreement": -1}
    for item, sam in product(tables, ("", "_sam")):
        for name in ("baseline", *CONTROLS):
            step = 0 if (name, sam) == ("baseline", "") else 1 + (name != "baseline")
            swing = 0.2 * bool(step)
            for metric, sign in signs.items():
                dataset = "cifar10_c" if metric == "corruption_accuracy" else "cifar10"
                better = 1 if metric == "accuracy" else performance
                mean = 50 + sign * better * step
                names = (item, name + sam, metric, mean, swing)
                yield repeated(*names, dataset=dataset)
            for metric, data in product(SHARPNESS, ("clean", "augmented")):
                mean = 50 + sharpness * (step + 3 * bool(sam))
                swing = (0.2 if way else 4.0) * bool(step) * (1 + bool(sam))
                names = (item, name + sam, metric, mean, swing)
                yield repeated(*names, sharpness_data=data)


BARS = [f"sharpbalance/figure7{panel}" for panel in "abcdef"]
TRADEOFF = [f"sharpbalance/figure{number}" for number in (3, 4, 5, 12)]
CASES = {
    "sharpbalance/tradeoff": lambda way: [
        record
        for item in TRADEOFF
        for record in swept(item, 0.5 * way, 0.02 if way else 0.3)
    ],
    "sharpbalance/sam-individual": lambda way: duel(
        BARS, "individual_accuracy", "sam", ["deep_ensemble"], way
    ),
    "sharpbalance/sam-improvement": lambda way: duel(
        BARS, "eir", "sam", ["deep_ensemble"], -way
    ),
    "sharpbalance/wins-ood": lambda way: ahead(BARS[:3], way),
    "sharpbalance/wins-id": lambda way: ahead(BARS[3:], 0.2 * way - 0.2, 0.05),
    "sharpbalance/other-networks": lambda way: ahead(
        ["sharpbalance/figure13", "sharpbalance/table5"], way
    ),
    "sharpbalance/gap-severity": lambda way: lead(
        [f"sharpbalance/table{number}" for number in (2, 3, 4)],
        "severity",
        (1, 2, 3, 4, 5),
        way,
    ),
    "sharpbalance/gap-size": lambda way: sized(
        [4 + 0.5 * way * size for size in (2, 3, 4, 5)]
    ),
    "sharpbalance/gain-at-five": gain,
    "sharpbalance/beta-width": lambda way: [
        record
        for rank, width in enumerate((8, 16, 64))
        for record in swept(
            "sharpbalance/figure5a", 0.4 - way * 0.1 * rank, width=width
        )
    ],
    "sharpbalance/beta-sparsity": lambda way: [
        record
        for rank, sparsity in enumerate((0.0, 0.8, 0.95))
        for record in swept(
            "sharpbalance/figure5b", 0.4 + way * 0.1 * rank, sparsity=sparsity
        )
    ],
    "sharpbalance/fisher-curvature": lambda way: [
        repeated(
            "sharpbalance/figure14", "sam", "rank_correlation", mean, 0.1, score=of
        )
        for of, mean in (("input_curvature", 0.5 * way), ("loss", -0.5))
    ],
    "sharpbalance/uncertainty-order": ordered,
    "sharpbalance/uncertainty-size": falling,
    "sharpbalance/scoring-cost": lambda way: [
        repeated(
            "sharpbalance/table8", "sharpbalance", "scoring_overhead", 1.5 - way, 0.2
        )
    ],
    "sharpbalance/gsam": gsam,
    "sharpbalance/eoa-sam-plus": lambda way: duel(
        ["sharpbalance/table6"],
        "ensemble_accuracy",
        "sharpbalance",
        ["eoa", "sam_plus"],
        way,
    ),
    "sed/unique": lambda way: shifted(
        "unique_predictions", "sed/table1", way, ["deep_ensemble", "a2d"]
    ),
    "sed/pds-over-bma": lambda way: detector(way, [("sed_a2d", "BMA")]),
    "sed/best-detector": lambda way: detector(
        way, [("sed_a2d", "BMA"), ("a2d", "PDS"), ("deep_ensemble", "BMA")]
    ),
    "sed/aggregations": lambda way: shifted(
        "accuracy", "sed/table2", way, ["deep_ensemble", "divdis"]
    ),
    "sed/envelops-a2d": enveloped,
    "sed/lambda-jump": jump,
    "sed/auroc-size": growing,
    "sed/step-constant": timed(["sed_a2d"], 0.0, 1.0, 0.25),
    "sed/naive-quadratic": timed(["a2d", "divdis"], 2.0, 3.0, 2.25),
    "rethinking/baseline-worst": lambda way: controls(way, 1, 1),
    "rethinking/safety-is-sharp": lambda way: controls(way, 1, 1),
    "rethinking/safety-is-sharp-clean": lambda way: controls(way, 1, 1),
    **{
        f"rethinking/{name}{data}": lambda way: controls(1, way, way)
        for name in ("baseline-flattest", "sam-sharpens")
        for data in ("", "-clean")
    },
}


def of_released(case):
    """The same numbers, of the released rule."""

    def renamed(record):
        if record.method.startswith("sharpbalance"):
            return replace(record, method=f"{record.method}_released")
        return record

    return lambda way: map(renamed, case(way))


OF_SHARPBALANCE = (
    "wins-ood",
    "wins-id",
    "other-networks",
    "gap-severity",
    "gap-size",
    "gain-at-five",
    "uncertainty-order",
    "uncertainty-size",
    "gsam",
    "eoa-sam-plus",
)
CASES |= {
    f"sharpbalance/{name}-released": of_released(CASES[f"sharpbalance/{name}"])
    for name in OF_SHARPBALANCE
}
