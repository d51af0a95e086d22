"""Verdicts on the command line, and those of the documents."""

import json
import re
from pathlib import Path

import pytest

from claim_cases import CASES
from refusals import refused
from tepui.cli.main import main
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.tables import document, markdown, overview
from tepui.studies.results import Results, write_results

DOCS = Path(__file__).parents[2] / "docs"
COMMITTED = DOCS.parent / "research" / "papers.jsonl"
VERDICTS = "68c7a132302955cb740e558e3bc16d765cb3e046bcaf0a4c6cf6d41154b1c17f"


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results/small/sharpbalance/table6"
    folder.mkdir(parents=True)
    records = tuple(CASES["sharpbalance/eoa-sam-plus"](1))
    found = Results("sharpbalance/table6", "others", "small", {}, {}, records)
    write_results(folder, found)
    return tmp_path / "results"


def test_the_table_shows_each_claim_and_the_count(results, capsys):
    main(["claims", "--from", str(results)])
    shown, told = capsys.readouterr()
    assert told == ""
    (row,) = [
        line for line in shown.splitlines() if "sharpbalance/eoa-sam-plus" in line
    ]
    (verdict,) = (
        v for v in judged(results) if v.claim.name == "sharpbalance/eoa-sam-plus"
    )
    assert f"{verdict.decision.finding.effect:.4g}" in row
    assert [c.strip() for c in row.split("│")[2:4]] == ["small", "transfers"]
    computed = sum(not claim.needs for claim in CLAIMS)
    nothing = len(CLAIMS) - computed - 1
    counts = f"small: transfers 1; computed: supported 2, refuted 2; no data {nothing}"
    assert counts in shown
    assert "tradeoff" not in shown


def judged(folder):
    return verdicts(read_evidence(folder))


def test_the_files_can_be_read_by_programs(results, tmp_path, capsys):
    words = ["claims", "--from", str(results), "--out", str(tmp_path / "out")]
    main(words)
    assert f"written to {tmp_path / 'out'}" in capsys.readouterr().out.replace("\n", "")
    written = json.loads((tmp_path / "out/claims.json").read_text())
    outcomes = {row["claim"]: row["outcome"] for row in written["verdicts"]}
    assert outcomes["sharpbalance/eoa-sam-plus"] == "transfers"
    assert [*outcomes] == [claim.name for claim in CLAIMS]
    text = (tmp_path / "out/claims.md").read_text()
    assert text == markdown(verdicts(read_evidence(results)))
    assert "claims.json exists" in refused(words, capsys)
    main([*words, "--overwrite"])


def test_a_folder_without_results_is_told_beside_what_needs_none(tmp_path, capsys):
    main(["claims", "--from", str(tmp_path)])
    shown, told = capsys.readouterr()
    assert told == (
        f"tepui: no results of the papers' figures and tables in {tmp_path} (those of "
        "size smoke do not count): what follows needs none (make some with: tepui "
        "reproduce)\n"
    )
    assert "theorem1" in shown
    assert "no results" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--from", "nowhere"],
            "no file or folder nowhere; make one with: tepui reproduce (tepui's own "
            "results are in its repository: --from research/papers.jsonl)",
        ),
        (["--size", "small"], "--size"),
    ],
)
def test_mistakes_are_named(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["claims", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_committed_results_have_these_verdicts():
    """Byte for byte, whichever machine judges; the page counts claims by verdict."""
    found = judged(COMMITTED)
    assert document(found)["sha256"] == VERDICTS
    counts = re.findall(r"^- \*\*([\w ]+)\*\* \((\d+)\)", overview(found), re.M)
    page = (DOCS / "papers.md").read_text()
    assert len(counts) == 5
    for verdict, count in counts:
        assert f"\n| {verdict.lower()} | {count} |\n" in page
