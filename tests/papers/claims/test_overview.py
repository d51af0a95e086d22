"""What came of the claims, in plain words."""

import re
from dataclasses import replace

import pytest

from claim_cases import CASES
from tepui.papers.claims.evidence import Datum, Evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.overview import BOTH, GROUPS, Standing, overview
from tepui.papers.claims.tables import markdown

WINS = "sharpbalance/wins-ood"
TEXTS = {claim.name: claim.text for claim in CLAIMS}


def numbers(name, way, size):
    """Numbers by which a claim is supported (1), undecided (0) or refuted (-1)."""
    return Evidence(tuple(Datum(each, size, epochs=200) for each in CASES[name](way)))


def told(*several):
    return overview(verdicts(sum(several, Evidence(()))))


def counts(text, label):
    """The cells of a row of the first table, by the names of its columns."""
    lines = text.splitlines()
    cells = ([c.strip() for c in line.strip("| ").split("|")] for line in lines)
    head, _, *rows = [row for row in cells if len(row) > 4]
    (row,) = [row for row in rows if row[0] == label]
    return dict(zip(head, row, strict=False))


def below(text, heading):
    """The items of a list."""
    found = re.search(rf"^- {re.escape(heading)}:\n((?:    - .*\n)+)", text, re.M)
    return [] if found is None else re.findall("^    - (.*)$", found[1], re.M)


def link(name):
    anchor = name.replace("/", "-")
    return f"[{TEXTS[name].removesuffix('.')}](#{anchor})"


def test_each_claim_is_in_one_group():
    for claim in CLAIMS:
        assert sum(group.has(claim) for group in GROUPS) == 1, claim.name


def test_a_supported_claim_stands_under_its_size():
    text = told(numbers(WINS, 1, "medium"))
    assert below(text, "**Supported** at `medium`") == [link(WINS)]
    assert below(text, "**Refuted** at `medium`") == []
    row = counts(text, "SharpBalance, by the paper's rule")
    assert (row["supported"], row["refuted"], row["undecided"]) == ("1", "0", "0")
    assert (int(row["no data"]), int(row["all"])) == (16, 17)


def test_a_refuted_claim_says_in_how_many_comparisons_it_fails():
    text = told(numbers(WINS, -1, "medium"))
    (item,) = below(text, "**Refuted** at `medium`")
    assert item == f"{link(WINS)} (fails in 6 of 6 comparisons)"


def test_undecided_is_not_refuted():
    text = told(numbers(WINS, 0, "medium"), numbers(WINS, 0, "small"))
    assert below(text, "**Undecided** at every size") == [link(WINS)]
    row = counts(text, "SharpBalance, by the paper's rule")
    assert (row["supported"], row["refuted"], row["undecided"]) == ("0", "0", "1")
    assert row.get("decided at size", "") == ""


@pytest.mark.parametrize(("way", "said"), [(1, "Transfers"), (-1, "Does not transfer")])
def test_one_size_decides_where_others_are_open(way, said):
    text = told(numbers(WINS, 0, "medium"), numbers(WINS, way, "small"))
    assert len(below(text, f"**{said}** at `small`")) == 1
    assert below(text, "**Undecided** at every size") == []
    row = counts(text, "SharpBalance, by the paper's rule")
    assert row["decided at size"] == "1 at `small`"


def test_sizes_that_contradict_each_other_are_both_told():
    text = told(numbers(WINS, 1, "paper"), numbers(WINS, -1, "medium"))
    assert len(below(text, "**Supported** at `paper`")) == 1
    assert len(below(text, "**Refuted** at `medium`")) == 1
    row = counts(text, "SharpBalance, by the paper's rule")
    assert (row["supported"], row["refuted"], row[BOTH]) == ("0", "0", "1")
    assert row["decided at size"] == "1 at `paper`, 1 at `medium`"


def test_a_claim_counts_by_real_data_before_stand_ins():
    text = told(numbers(WINS, 1, "medium"), numbers(WINS, -1, "small"))
    assert len(below(text, "**Supported** at `medium`")) == 1
    assert len(below(text, "**Does not transfer** at `small`")) == 1
    row = counts(text, "SharpBalance, by the paper's rule")
    assert (row["supported"], row["does not transfer"]) == ("1", "0")
    assert row["decided at size"] == "1 at `medium`, 1 at `small`"


def test_the_size_nearest_to_the_paper_s_is_named():
    sizes = ("small", "medium+ensembles=6", "medium", "paper")
    text = told(*(numbers(WINS, 1, size) for size in sizes))
    assert below(text, "**Supported** at `paper`") == [link(WINS)]
    assert "**Supported** at `medium`" not in text
    assert "at size `paper`, by the papers' own experiments: 1." in text


def test_a_shortened_run_is_not_the_paper_s_experiment():
    text = told(numbers(WINS, 1, "paper+epochs=80+ensembles=2"))
    assert "at size `paper`, by the papers' own experiments: none." in text
    assert below(text, "**Supported** at `paper+epochs=80`") == [link(WINS)]


def test_more_repetitions_are_not_another_size():
    text = told(
        numbers(WINS, 1, "small+ensembles=9"), numbers(WINS, 1, "small+members=9")
    )
    assert below(text, "**Transfers** at `small`") == [link(WINS)]
    assert "`small+members=9`" not in text
    text = told(numbers(WINS, 1, "small+members=9"))
    assert below(text, "**Transfers** at `small+members=9`") == [link(WINS)]


def test_more_members_are_repetitions_of_single_networks():
    name = "sharpbalance/fisher-curvature"
    text = told(numbers(name, 1, "small+members=9"))
    assert below(text, "**Transfers** at `small`") == [link(name)]


def test_of_several_studies_of_a_size_the_largest_is_told():
    name = "rethinking/sam-sharpens"
    cut = [replace(e, values=e.values[:5], n=5) for e in CASES[name](-1)]
    few = Evidence(tuple(Datum(each, "small") for each in cut))
    found = verdicts(few + numbers(name, -1, "small+members=6"))
    several = [v for v in found if v.claim == name]
    assert [v.size for v in several] == ["small", "small+members=6"]
    assert {v.outcome for v in several} == {"does not transfer"}
    claim = next(claim for claim in CLAIMS if claim.name == name)
    (shown,) = Standing(claim, tuple(several)).shown
    assert shown.size == "small+members=6"


def test_claims_without_data_are_not_undecided():
    text = told()
    row = counts(text, "SED")
    assert (row["undecided"], row["no data"]) == ("0", row["all"])
    assert "**SED.** No data." in text


def test_a_twin_that_comes_out_otherwise_is_set_beside_its_claim():
    both = numbers(WINS, -1, "medium"), numbers(f"{WINS}-released", 1, "medium")
    text = told(*both)
    assert "With the paper's rule 10 of 11 come out the same (no data 10)." in text
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {link(WINS)}")]
    first, second = row.strip("| ").split(" | ")[-2:]
    assert re.fullmatch(r"\*\*refuted\*\* at `medium`: -[\d.]+ \(.* to .*\)", first)
    assert re.fullmatch(r"\*\*supported\*\* at `medium`: [\d.]+ \(.* to .*\)", second)


def test_a_twin_that_comes_out_the_same_is_only_counted():
    both = numbers(WINS, 1, "medium"), numbers(f"{WINS}-released", 1, "medium")
    text = told(*both)
    said = "With the paper's rule 11 of 11 come out the same (supported 1, no data 10)."
    assert said in text
    assert f"| {link(WINS)}" not in text


def test_a_twin_says_what_it_leaves_out():
    name = "sharpbalance/uncertainty-order"
    both = numbers(name, -1, "small"), numbers(f"{name}-released", 1, "small")
    text = told(*both)
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {link(name)}")]
    assert "judged is only: [ECE and NLL under corruption: SharpBalance below" in row
    found = verdicts(sum(both, Evidence(())))
    (twin,) = [v for v in found if v.claim == f"{name}-released"]
    assert all("sharpbalance_released against sam" in f.where for f in twin.findings)


@pytest.mark.parametrize("name", ["sharpbalance/gap-severity", "sed/aggregations"])
def test_what_fails_as_printed_is_told(name):
    text = told(numbers(name, 0, "small"))
    (item,) = below(text, "**Undecided** at every size")
    assert item == f"{link(name)} (fails on the paper's own printed numbers)"


def test_links_lead_to_rows_and_rows_to_reasons():
    text = markdown(verdicts(numbers(WINS, -1, "medium")))
    ids = re.findall('<a id="(.*?)">', text)
    assert len(ids) == len({*ids}) == 2 * len(CLAIMS)
    assert {*re.findall(r"\(#(.*?)\)", text)} <= {*ids}
