"""Verdicts on the command line, and those of the documents."""

import json
import re
import runpy
from pathlib import Path

import pytest
from rich.console import Console

from claim_cases import CASES
from refusals import refused
from tepui.cli import claims
from tepui.cli.main import main
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.tables import markdown
from tepui.studies.results import Results, write_results

DOCS = Path(__file__).parents[2] / "docs"


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
    claim = next(c for c in CLAIMS if c.name == "sharpbalance/eoa-sam-plus")
    told = f"{claim.name}: {claim.text} (effect: {claim.effect}) small: transfers, eff"
    words = " ".join(shown.split())
    assert told in words
    which = "; sharpbalance against sam_plus, ensemble_accuracy:"
    assert which in words
    computed = sum(claim.computed is not None for claim in CLAIMS)
    nothing = len(CLAIMS) - computed - 1
    counts = f"small: transfers 1; computed: supported 2, refuted 2; no data {nothing}"
    assert counts in shown
    assert "tradeoff" not in shown
    assert "smoke" not in shown


@pytest.mark.slow
def test_sentences_fit_the_width_of_a_screen(monkeypatch, capsys):
    narrow = Console(width=80, highlight=False, markup=False)
    monkeypatch.setattr(claims, "console", lambda: narrow)
    claims.claims(folder=DOCS / "results")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "SAM makes single members more accurate." in shown
    assert "  medium: refuted, effect " in shown
    assert "  small: undecided (check failed: SAM raises accuracy)\n" in shown


def test_json_and_markdown_can_be_read_by_programs(results, capsys):
    main(["claims", "--from", str(results), "--json"])
    written = json.loads(capsys.readouterr().out)
    outcomes = {row["claim"]: row["outcome"] for row in written["verdicts"]}
    assert outcomes["sharpbalance/eoa-sam-plus"] == "transfers"
    assert [*outcomes] == [claim.name for claim in CLAIMS]
    main(["claims", "--from", str(results), "--markdown"])
    text = capsys.readouterr().out
    assert text == markdown(verdicts(read_evidence(results)))


@pytest.mark.parametrize("words", [[], ["--json"], ["--markdown"]])
def test_a_folder_without_results_is_told_beside_what_needs_none(
    words, tmp_path, capsys
):
    main(["claims", "--from", str(tmp_path), *words])
    shown, told = capsys.readouterr()
    assert told == (
        f"tepui: no results of the papers' figures and tables in {tmp_path} (those of "
        "size smoke do not count): what follows needs none (make some with: tepui "
        "reproduce)\n"
    )
    assert "theorem1" in shown
    assert "no results" not in shown


def test_results_of_size_smoke_are_left_out(tmp_path, capsys):
    folder = tmp_path / "smoke/sharpbalance/table6"
    folder.mkdir(parents=True)
    records = tuple(CASES["sharpbalance/eoa-sam-plus"](1))
    found = Results("sharpbalance/table6", "others", "smoke", {}, {}, records)
    write_results(folder, found)
    main(["claims", "--from", str(tmp_path), "--json"])
    shown, told = capsys.readouterr()
    assert "those of size smoke do not count" in told
    why = {row["claim"]: row["why"] for row in json.loads(shown)["verdicts"]}
    assert why["sharpbalance/eoa-sam-plus"] == "Needs sharpbalance/table6."


def test_files_are_written_and_not_replaced(results, tmp_path, capsys):
    out = tmp_path / "out"
    main(["claims", "--from", str(results), "--out", str(out)])
    assert f"written to {out}" in capsys.readouterr().out.replace("\n", "")
    assert {file.name for file in out.iterdir()} == {"claims.json", "claims.md"}
    assert "claims.json exists" in refused(
        ["claims", "--from", str(results), "--out", str(out)], capsys
    )
    main(["claims", "--from", str(results), "--out", str(out), "--overwrite"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--from", "nowhere"],
            "nowhere is not a directory; make one with: tepui reproduce (tepui's own "
            "results are in its repository: --from docs/results)",
        ),
        (["--from", ".", "--json", "--markdown"], "--json must be left out"),
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
def test_the_documents_hold_the_verdicts_of_the_committed_results(capsys):
    """Byte for byte, whichever machine they were written on."""
    main(["claims", "--from", str(DOCS / "results"), "--json"])
    shown = capsys.readouterr().out
    assert shown.encode() == (DOCS / "claims.json").read_bytes()


@pytest.mark.slow
def test_the_page_is_what_its_script_makes():
    page = (DOCS / "claims.md").read_text()
    made = runpy.run_path(str(DOCS / "make_claims.py"))["made"]
    assert made(page, verdicts(read_evidence(DOCS / "results"))) == page
    parts = re.findall("^<!-- (?!end of)(.*) -->$", page, re.M)
    assert parts == ["overview", "verdicts", "reasons"]


def test_links_within_the_page_lead_somewhere():
    page = (DOCS / "claims.md").read_text()
    headings = re.findall("^#+ (.*)$", page, re.M)
    ids = re.findall('<a id="(.*?)">', page)
    assert len(ids) == len({*ids}) == 2 * len(CLAIMS)
    known = {*ids, *(re.sub(r"\W+", "-", name.lower()) for name in headings)}
    linked = {*re.findall(r"\]\(#(.*?)\)", page)}
    assert linked <= known
    assert {claim.anchor for claim in CLAIMS if not claim.twin} <= linked
