"""What an epoch costs is told plainly only where the clock can be believed."""

from dataclasses import replace

import pytest

from report_cases import comparison, shown
from tepui.report.prices import prices


def timed(base, other, epochs=4, **training):
    """Return two methods whose epochs took so many seconds, one per ensemble."""
    given = comparison()
    (group,) = shown(given).groups
    trained = given.methods[0].ensembles[0]
    entries = []
    for entry, seconds in zip(group.entries, (base, other), strict=True):
        ensembles = tuple(
            replace(trained, seeds=(n,), seconds=epochs * each)
            for n, each in enumerate(seconds)
        )
        nothing = ((),) * len(ensembles)
        entries.append(
            replace(
                entry,
                result=replace(entry.result, ensembles=ensembles),
                training={"epochs": epochs},
                histories=nothing,
                timelines=nothing,
            )
        )
    entries[1] = replace(entries[1], training={**entries[1].training, **training})
    return replace(group, entries=tuple(entries))


def test_long_epochs_that_agree_are_told_plainly():
    found = prices(timed([10.0, 12.0, 11.0], [20.0, 24.2, 22.0]))
    assert found == (
        "An epoch takes 2.0 times as long with B as with A. "
        "Compare with A trained as long before you choose."
    )


def test_a_method_that_costs_no_more_needs_no_longer_baseline():
    found = prices(timed([10.0, 12.0, 11.0], [10.1, 12.0, 11.2]))
    assert found == "An epoch takes 1.0 times as long with B as with A."


@pytest.mark.parametrize(
    ("base", "other", "why"),
    [
        ([0.2, 0.2, 0.2], [0.4, 0.4, 0.4], "epochs were shorter than a second"),
        ([10.0], [20.0], "one pair of ensembles was timed"),
        ([10.0, 10, 30], [20.0, 60, 20], "the factor varies from pair to pair of"),
    ],
)
def test_others_have_their_reserve(base, other, why):
    found = prices(timed(base, other))
    assert found.startswith("An epoch took about ")
    assert f"with A: a hint, since {why}" in found


def test_all_reasons_are_named():
    found = prices(timed([0.1, 0.2], [0.9, 0.3]))
    assert "shorter than a second and the factor varies" in found


def test_other_hardware_has_no_factor():
    assert prices(timed([10.0, 10.0], [20.0, 20.0], hardware="another")) == ""
