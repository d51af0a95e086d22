"""Print the table of decision 006 from every ensemble's accuracy on held-out data.

PYTHONPATH=src python3 docs/make_small_radii.py [FOLDER]
"""

from pathlib import Path

from score_tables import DECISIONS, folders_asked_for, mean_and_error, row

from tepui.core.storage import read_json

RESULTS = DECISIONS / "006_small_radii"


def main(folder: Path = RESULTS) -> None:
    found = read_json(folder / "radii.json")["held_out_accuracy"]
    print(row("radius", *found))
    for radius in next(iter(found.values())):
        several = ([100 * each for each in rows[radius]] for rows in found.values())
        print(row(radius, *(mean_and_error(each, 2) for each in several)))


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
