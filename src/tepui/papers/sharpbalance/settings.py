"""What results say of how they were made, and what is not as the paper has it.

The paper's text, its Appendix D and the code that was released beside it do not agree
in everything; where they differ, the code made the printed numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tepui.papers.recipe import REASONS, Order, Size
from tepui.papers.sharpbalance.protocol import (
    PROTOCOLS,
    Protocol,
    Protocols,
    made_by,
    protocol_of,
)
from tepui.studies import Departure

PUNCTUAL = Departure(
    "SharpBalance's sets begin with the epoch of the switch, by either rule, in the "
    "released code with the epoch after it",
    "the paper does not say which; with one epoch for both, the rules differ by their "
    "sets alone",
)
ALWAYS = (
    Departure(
        "members are joined by their mean probabilities, in the paper by their logits",
        "the released code averages probabilities in every test",
    ),
    Departure(
        "every batch of SharpBalance holds the same numbers of sharp and of normal "
        "samples, in the released code as they come",
        "steps of one shape can be replayed on a GPU; the expected gradient is the "
        "same",
    ),
    PUNCTUAL,
    Departure(
        "seeds are 0, 1, 2, 1000, ... for 13, 17, 27, 113, ...",
        "equal numbers would not give equal networks, whose random numbers come from "
        "elsewhere",
    ),
)
SWITCH = Departure(
    "SharpBalance begins after half of the run, as in Table 1 of the paper, where its "
    "Appendix D.3 says epoch 10",
    "the two contradict each other, and the table is of figure 7",
)
STATISTICS = Departure(
    "perturbed passes leave BatchNorm's statistics alone, in the released code they "
    "update them",
    "the library's default, and that of other SAMs",
)
SPLIT = Departure(
    "the tenth of the training images that is held out is drawn by tepui",
    "the released code has a list of its own; both train on the other nine tenths",
)
BFLOAT16 = Departure(
    "trained in bfloat16 with float32 weights and tested in TF32, in the released code "
    "both in float32",
    "a step on an H200 takes a sixth of the time",
)

# Where the documents tell how a size's radius was chosen.
RADIUS_CHOSEN = {"medium": "decision 001", "small": "decision 006"}


def settings(
    order: Order,
    datasets: Sequence[str],
    *notes: Departure,
    protocols: Protocols = PROTOCOLS,
    architecture: str = "resnet18",
    **further: Any,
) -> dict[str, Any]:
    """Return how a study is made, with all that differs from the paper."""
    document: dict[str, Any] = {}
    differs: list[Departure] = []
    for name in datasets:
        used = protocol_of(order, name, protocols)
        document[name] = used.described()
        usual = protocols[order.size][name]
        paper = protocols["paper"][name]
        # What is overridden is no work of the size: the recipe tells it apart.
        apart = [n for n, value in order.lengths.items() if value != getattr(usual, n)]
        sized = usual._replace(**{length: getattr(paper, length) for length in apart})
        differs += smaller(sized, paper, name, architecture, order.size)
        differs += departures_of(usual, name)
    return {**document, "differs": [*differs, *ALWAYS, *notes], **further}


def smaller(
    used: Protocol, paper: Protocol, dataset: str, architecture: str, size: Size
) -> Iterator[Departure]:
    """Yield what a size has otherwise than the paper's."""
    if used == paper:
        return
    why = REASONS[size]
    here, there = _network(used), _network(paper)
    if used.dataset is not paper.dataset or here != there:
        model = architecture + there.removeprefix(made_by(paper.model))
        what = f"{made_by(used.dataset)} and {here} for {dataset} and {model}"
        yield Departure(what, why)
    values = {
        "epochs": (used.epochs, paper.epochs),
        "training samples": (used.train or "all", paper.train or "all"),
        "test samples": (used.test or "all", paper.test or "all"),
        "ensembles of each method": (used.ensembles, paper.ensembles),
        "members": (used.members, paper.members),
        "samples in a batch": (used.batch_size, paper.batch_size),
        "corruptions": (len(used.types), len(paper.types)),
        "the share of sharp samples": (used.fraction, paper.fraction),
    }
    changed = [f"{a} for {b} {n}" for n, (a, b) in values.items() if a != b]
    if changed:
        yield Departure(f"{dataset}: {', '.join(changed)}", why)
    if used.rho != paper.rho:
        what = f"{dataset}: radius {used.rho:g} for {paper.rho:g}"
        yield Departure(what, f"chosen on held-out data in {RADIUS_CHOSEN[size]}")
    if used.augment != paper.augment:
        yield Departure(f"{dataset}: images are not cropped and flipped", why)


def departures_of(used: Protocol, dataset: str) -> Iterator[Departure]:
    """Yield how ensembles of a protocol are trained and tested otherwise."""
    if dataset == "cifar10":
        yield SWITCH
    if not used.statistics:
        yield STATISTICS
    if used.held_out:
        yield SPLIT
    if used.precision == "bfloat16":
        yield BFLOAT16
    if used.types and used.installed_copies() is None:
        yield Departure(f"corrupted copies of {dataset} are made by tepui", _no(used))


def _no(used: Protocol) -> str:
    """Return why the released copies are not taken."""
    if used.released_copies is None:
        return "nobody released copies of what stands in"
    return f"{made_by(used.released_copies)} is not installed"


def _network(used: Protocol) -> str:
    """Return a network in words."""
    width = used.model.keywords.get("width")
    return made_by(used.model) + ("" if width is None else f" of width {width}")
