"""Read the results of decision 004 by the rules of 002: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_hundred_classes.py [FOLDER]

Before all blocks are complete it shows what each ensemble scored, and no difference but
those of the last table, which has blocks that came later too.
"""

from functools import partial
from pathlib import Path

from block_tables import Arms, on_copies
from decision_designs import DESIGNS
from decision_runs import read
from make_which_rule import LABELS, MEMBERS, print_page
from score_tables import (
    DECISIONS,
    Results,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

DESIGN = DESIGNS["004"]
RESULTS = DECISIONS / DESIGN.folder
LATER = DECISIONS / DESIGNS["medium"].folder


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, DESIGN.blocks)
    print_page(arms, picture_of(folder, f"decision_{DESIGN.folder}.png"))
    print_later([*arms.results, *read(LATER)])


def print_later(found: Results) -> None:
    """Print differences over all blocks that have both arms, later ones too."""
    heads = "with later blocks", "blocks", "corrupted", "clean", "severity 1", "3", "5"
    print("\n" + row(*heads))
    for arm, other in MEMBERS[:-1]:
        pair = Arms([r for r in found if r["arm"] in (arm, other)], LABELS, ())
        both = ({r["block"] for r in pair.ensembles(a)} for a in (arm, other))
        blocks = sorted(set.intersection(*both))
        several = [r for r in pair.results if r["block"] in blocks]
        pair = Arms(several, LABELS, blocks)
        leads = [pair.difference(arm, other, d) for d in ("corrupted", "clean")]
        leads += [
            pair.lead(arm, other, partial(on_copies, group=severity))
            for severity in ("1", "3", "5")
        ]
        name = f"{LABELS[arm]} less {LABELS[other]}"
        print(row(name, len(blocks), *map(with_interval, leads)))


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS, beside=[LATER]))
