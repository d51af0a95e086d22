"""File what decisions 002, 004, 007 and 008 trained, for the claims.

Their ensembles are those of figure 7 and tables 2 and 3 at that size, but for what
``DEPARTURES`` says. A block counts where it has every method; SAM and the deep ensemble
alone, of which there are more, are filed once more as a study of these two. Decision
007 trained at the paper's length: what scoring cost there is table 8 at size ``paper``.

PYTHONPATH=src:benchmarks python3 docs/make_medium.py
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from decision_designs import DESIGNS
from decision_runs import SEVERITIES, read
from score_tables import Results as Found

from tepui.papers.claims.tables import rounded
from tepui.papers.recipe import Order, load
from tepui.papers.reproduce import write
from tepui.papers.sharpbalance.scores import METRICS, metric_values
from tepui.studies import Departure, Record, Results, averaged
from tepui.studies.departures import DIFFERS

HERE = Path(__file__).parent
DECIDED = HERE / "results" / "decisions"
ENSEMBLES = 5
METHODS = {
    "deep_ensemble": "deep_ensemble",
    "sam": "sam",
    "paper": "sharpbalance",
    "released": "sharpbalance_released",
}
# Members that exchange data depend on each other and are no pairs.
ALONE = ("deep_ensemble", "sam")
# 008 trained more of SAM and the deep ensemble; it has no ensemble by the paper's rule.
DECISIONS = {"cifar10": ("002", "008"), "cifar100": ("004", "medium", "medium_sam")}
DECISION_OF = {"medium": "004", "medium_sam": "004"}
FRACTION = 0.4  # of sharp samples, in all of them
PANELS = {"cifar10": ("d", "a"), "cifar100": ("e", "b")}  # clean, corrupted
TABLES = {"cifar10": "table2", "cifar100": "table3"}
BARS = ("individual_accuracy", "ensemble_accuracy", "ensemble_improvement", "eir")
DEPARTURES = (
    Departure(
        "seeds derive from the numbers of the decisions' blocks",
        "these ensembles were trained for the decisions on defaults",
    ),
    Departure(
        "corrupted copies of severities 1, 3 and 5 alone",
        "these ensembles were trained for the decisions on defaults",
    ),
    Departure(
        "SharpBalance goes on from the first half of SAM's ensemble of the same seeds, "
        "in block 28 (CIFAR-100) from such a half that was trained again",
        "the two are one run until then; that one half was not kept",
    ),
    Departure(
        "the share of sharp samples is 0.4 on both data sets",
        "these ensembles were trained for the decisions on defaults",
    ),
    Departure(
        "cifar100: SharpBalance by the released rule takes its sets as for CIFAR-10 "
        '(share 0.4, `leftover="boost"`), in the released code share 0.5 and `split`, '
        "which `tepui reproduce --size medium` trains",
        "these ensembles were trained for the decisions on defaults",
    ),
)

OF_COST = (
    Departure(
        "seeds of five runs of two blocks, some with the same first epochs: radius "
        "0.05 in three and 0.2 in two, SharpBalance from 0.5 of the run in three and "
        "0.85 in two",
        "these ensembles were trained for decision 007",
    ),
)

Arms = Mapping[str, Found]  # of each method, by block


def main() -> None:
    there = {name: arms_of(name) for name in DECISIONS}
    panels = tuple(sorted("".join(map("".join, PANELS.values()))))
    whole = {name: in_all(arms) for name, arms in there.items()}
    file_bars(Order("medium", panels), whole)
    for name, arms in whole.items():
        records = by_severity(name, arms)
        file(f"sharpbalance/{TABLES[name]}", Order("medium"), records, {name: arms})
    file_bars(*alone(there, panels))
    file_cost([r for r in read(DECIDED / "007_headline") if r["exchange_seconds"]])


def arms_of(dataset: str) -> Arms:
    """Return a data set's ensembles."""
    folders = {DESIGNS[decision].folder: None for decision in DECISIONS[dataset]}
    found = [r for x in folders for r in read(DECIDED / x)]
    found.sort(key=lambda result: result["block"])
    return {METHODS[arm]: [r for r in found if r["arm"] == arm] for arm in METHODS}


def in_all(arms: Arms) -> Arms:
    """Return the ensembles of blocks that every method has."""
    blocks = [{r["block"] for r in found} for found in arms.values()]
    shared = set.intersection(*blocks)
    return {m: [r for r in found if r["block"] in shared] for m, found in arms.items()}


def alone(
    there: Mapping[str, Arms], panels: tuple[str, ...]
) -> tuple[Order, dict[str, Arms]]:
    """Return the study of SAM and the deep ensemble, with equally many blocks."""
    pairs = {name: in_all({m: arms[m] for m in ALONE}) for name, arms in there.items()}
    count = min(len(found) for arms in pairs.values() for found in arms.values())
    return Order("medium", panels, ensembles=count, methods=ALONE), {
        name: {method: found[:count] for method, found in arms.items()}
        for name, arms in pairs.items()
    }


def file_bars(order: Order, sources: Mapping[str, Arms]) -> None:
    """Write figure 7."""
    records = [r for name, arms in sources.items() for r in bars_of(name, arms)]
    file("sharpbalance/figure7", order, records, sources)


def file_cost(runs: Found) -> None:
    """Write what scoring adds to runs as long as the paper's."""
    shares = [100 * r["exchange_seconds"] / sum(r["epoch_seconds"]) for r in runs]
    cost = averaged(
        shares,
        [],
        item="sharpbalance/table8",
        dataset="cifar10",
        architecture="resnet18",
        method="sharpbalance_released",
        metric="scoring_overhead",
        unit="percent",
    )
    order = Order("paper", ensembles=len(shares), methods=(cost.method,))
    file(cost.item, order, [cost], {"cifar10": {cost.method: runs}}, OF_COST)


def bars_of(dataset: str, arms: Arms) -> Iterator[Record]:
    """Yield the records of figure 7 on one data set."""
    parts = ("clean", dataset), ("corrupted", f"{dataset}_c")
    for letter, (part, name) in zip(PANELS[dataset], parts, strict=True):
        for method, found in arms.items():
            for metric in BARS:
                members: Sequence[float] = ()
                if method in ALONE and metric == "individual_accuracy":
                    members = [
                        100 * x for r in found for x in r[part]["members"]["accuracy"]
                    ]
                yield averaged(
                    metric_values([r[part] for r in found], metric),
                    [],
                    item=f"sharpbalance/figure7{letter}",
                    dataset=name,
                    architecture="resnet18",
                    method=method,
                    metric=metric,
                    unit=METRICS[metric][1],
                    members=tuple(members),
                    at={"ensemble_size": 3},
                )


def by_severity(dataset: str, arms: Arms) -> Iterator[Record]:
    """Yield the records of the table of severities on one data set."""
    for severity in SEVERITIES:
        for method, found in arms.items():
            yield averaged(
                [100 * at_severity(r["copies"], severity) for r in found],
                [],
                item=f"sharpbalance/{TABLES[dataset]}",
                dataset=f"{dataset}_c",
                architecture="resnet18",
                method=method,
                metric="ensemble_accuracy",
                unit="percent",
                at={"severity": severity, "ensemble_size": 3},
            )


def at_severity(copies: Mapping[str, float], severity: int) -> float:
    """Return the mean accuracy over the copies of a severity."""
    return fmean(v for name, v in copies.items() if name.endswith(f"/{severity}"))


def lacking(order: Order, dataset: str, arms: Arms) -> Iterator[Departure]:
    """Yield what is said of a data set that has fewer ensembles than asked for."""
    asked, blocks = order.ensembles or ENSEMBLES, len(next(iter(arms.values())))
    if blocks < asked:
        yield Departure(
            f"{blocks} of {asked} ensembles of each method on {dataset}",
            "what time on a GPU was there",
        )


def applies(what: str, sources: Mapping[str, Arms]) -> bool:
    """Return whether a departure of the recipe, or of ours, is one of these results.

    Seeds are the decisions' own, and some studies have one data set or no SharpBalance.
    """
    other = what.startswith("cifar100: ") and "cifar100" not in sources
    if what.startswith("seeds are ") or other:
        return False
    balanced = any("sharpbalance" in method for x in sources.values() for method in x)
    return balanced or ("SharpBalance" not in what and "sharp samples" not in what)


def named(sources: Mapping[str, Arms]) -> str:
    """Return the decisions whose blocks some ensembles are of, in words."""
    numbers = {
        DECISION_OF.get(design, design)
        for name, arms in sources.items()
        for found in arms.values()
        for result in found
        for design in (*DECISIONS[name], "007")
        if result["block"] in DESIGNS[design].blocks
    }
    *most, last = sorted(numbers)
    if not most:
        return f"decision {last}"
    return f"decisions {', '.join(most)} and {last}"


def made_on(sources: Mapping[str, Arms]) -> dict[str, Any]:
    """Return versions and hardware; where there are several, all in a list."""
    places: list[dict[str, Any]] = []
    for result in (r for x in sources.values() for found in x.values() for r in found):
        own = result["environment"].items()
        place = {name: at for name, at in own if name not in ("command", "tepui")}
        if place not in places:
            places.append(place)
    return places[0] if len(places) == 1 else {"trained_on": places}


def as_anywhere(record: Record) -> Record:
    """Return a record whose statistics are the same whichever machine computes them."""
    found = {name: getattr(record, name) for name in ("value", "sem", "interval")}
    return Record.of({**record.document(), **rounded(found)})


def file(
    item: str,
    order: Order,
    records: Iterable[Record],
    sources: Mapping[str, Arms],
    departures: Sequence[Departure] = DEPARTURES,
) -> None:
    """Write results where the pages and the claims read them."""
    recipe = load(item)
    settings = recipe.described(order)
    for name in sources:
        settings[name] |= {"fraction": FRACTION}
    own = [each for each in departures if applies(each.what, sources)]
    own += [each for x in sources.items() for each in lacking(order, *x)]
    planned = [each for each in settings[DIFFERS] if applies(each["what"], sources)]
    settings[DIFFERS] = planned + [each.document() for each in own]
    settings["made_by"] = f"the commands of {named(sources)}, and `docs/make_medium.py`"
    made = Results(
        item,
        recipe.title,
        order.label,
        settings,
        {**made_on(sources), "command": "python docs/make_medium.py"},
        tuple(map(as_anywhere, records)),
    )
    folder = HERE / "results" / order.label / item
    write(folder, made, recipe.draw)
    for name in ("results.csv", "figure.svg"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
