"""Reading results for claims."""

import json
from dataclasses import replace

import pytest

from claim_cases import repeated
from tepui.papers.claims.evidence import (
    Evidence,
    label,
    printed_evidence,
    read_evidence,
)
from tepui.studies.results import Results, write_results

RECORD = repeated("sharpbalance/figure7a", "sam", "eir", 0.5, 0.1, ensemble_size=3)


def stored(folder, *records, size="small", item="sharpbalance/figure7", **settings):
    folder.mkdir(parents=True)
    write_results(folder, Results(item, "title", size, settings, {}, records))


def test_a_tree_is_read_with_and_without_sizes(tmp_path):
    stored(tmp_path / "a/small/sharpbalance/figure7", RECORD)
    stored(tmp_path / "b/sharpbalance/figure7", RECORD)
    for folder in ("a", "b"):
        (datum,) = read_evidence(tmp_path / folder).data
        assert datum.record == RECORD
        assert datum.size == "small"
        assert datum.command == "tepui reproduce sharpbalance/figure7 --size small"


def test_a_panel_is_made_again_alone(tmp_path):
    stored(tmp_path / "paper/sharpbalance/figure7a", RECORD, size="paper")
    (datum,) = read_evidence(tmp_path).data
    assert datum.command == "tepui reproduce sharpbalance/figure7a --size paper"


def test_a_study_of_another_command_names_it(tmp_path):
    stored(tmp_path / "figure7", RECORD, command="python mine.py")
    (datum,) = read_evidence(tmp_path).data
    assert datum.command == "python mine.py"


def test_sizes_stay_apart_and_smoke_is_no_evidence(tmp_path):
    for size in ("paper", "small", "smoke"):
        stored(tmp_path / size / "sharpbalance/figure7", RECORD, size=size)
    found = read_evidence(tmp_path)
    assert [each.size for each in found.data] == ["paper", "small"]


def test_a_shortened_run_is_no_run_of_the_paper_s_length(tmp_path):
    """One of fewer methods is."""
    sizes = ("paper", "paper+epochs=80+ensembles=1", "paper+methods=sam,eoa")
    other = replace(RECORD, method="eoa")
    for size, record in zip(sizes, (RECORD, RECORD, other), strict=True):
        folder = tmp_path / size / "sharpbalance/figure7"
        stored(folder, record, size=size, cifar10={"epochs": 80})
    found = read_evidence(tmp_path)
    assert found.sizes(["sharpbalance/figure7"]) == [*sizes[:2]]
    assert {each.record.method for each in found.at("paper").data} == {"sam", "eoa"}
    assert {each.epochs for each in found.data} == {80}


def test_the_same_number_twice_is_one(tmp_path):
    stored(tmp_path / "small/sharpbalance/figure7", RECORD)
    stored(tmp_path / "small/sharpbalance/figure7a", RECORD)
    assert len(read_evidence(tmp_path).data) == 1


def test_different_numbers_of_one_name_are_refused(tmp_path):
    stored(tmp_path / "small/sharpbalance/figure7", RECORD)
    other = replace(RECORD, value=0.6)
    stored(tmp_path / "small/sharpbalance/figure7a", other)
    with pytest.raises(ValueError, match=r"hold different numbers.*remove one of them"):
        read_evidence(tmp_path)


def test_another_format_is_refused_with_what_to_do(tmp_path):
    stored(tmp_path / "figure7", RECORD)
    file = tmp_path / "figure7/results.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 0}))
    with pytest.raises(ValueError, match="got format 0; make them again with: tepui"):
        read_evidence(tmp_path)


def test_foreign_records_are_refused(tmp_path):
    stored(tmp_path / "figure8", RECORD, item="sharpbalance/figure8")
    with pytest.raises(ValueError, match="records must belong to sharpbalance/figure8"):
        read_evidence(tmp_path)


def test_a_missing_folder_says_what_makes_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="make one with: tepui reproduce"):
        read_evidence(tmp_path / "nothing")


def test_panels_belong_to_their_figure_and_other_figures_do_not():
    items = ["x/figure1", "x/figure1b", "x/figure12", "x/figure12a"]
    records = [replace(RECORD, item=item) for item in items]
    data = [replace(printed_evidence().data[0], record=each) for each in records]
    evidence = Evidence(tuple(data))
    found = [each.record.item for each in evidence.find(["x/figure1"])]
    assert found == ["x/figure1", "x/figure1b"]
    assert evidence.has("x/figure12a")
    assert not evidence.has("x/figure2")


def test_groups_share_all_names_but_those_inside():
    records = [
        replace(RECORD, method=method, dataset=dataset)
        for method in ("sam", "sharpbalance")
        for dataset in ("cifar10", "cifar100")
    ]
    data = tuple(replace(printed_evidence().data[0], record=each) for each in records)
    groups = list(Evidence(data).groups(["sharpbalance/figure7"], ["method"]))
    assert [group["dataset"] for group, _ in groups] == ["cifar10", "cifar100"]
    assert all([*found] == ["sam", "sharpbalance"] for _, found in groups)
    assert not list(Evidence(data).groups(["sharpbalance/figure7"], ["width"]))
    assert label(groups[0][0]) == "figure7a, cifar10, resnet18, ensemble size 3"


def test_printed_numbers_are_those_of_the_papers():
    found = printed_evidence().find(["sharpbalance/table8"], metric="scoring_overhead")
    assert [each.record.value for each in found] == [0.992]
    assert all(each.record.n == 0 for each in printed_evidence().data)
