"""The tables of SharpBalance: their numbers, and the paper's beside them."""

from statistics import fmean

import pytest

from tepui.methods import GSAM, SAM, SharpBalance
from tepui.papers.published import printed, published
from tepui.papers.recipe import Order, look_up
from tepui.papers.reproduce import check_needs
from tepui.papers.sharpbalance import table1, table5, tables
from tepui.papers.sharpbalance.protocol import PROTOCOLS
from tepui.studies.specifications import samples_in
from tepui.studies.store import Store
from tepui.training import EpochRecord

TABLES = [f"sharpbalance/table{number}" for number in range(1, 9)]


class Written:
    """A store whose trials scored what their digests say."""

    def evaluation(self, trial, exam):
        start = int(trial.digest[:4], 16) / 2**17
        return {
            "clean": _scores(start),
            "shifted": _scores(start / 2),
            "severities": {str(level): _scores(start / level) for level in range(1, 6)},
        }

    def run(self, trial):
        return self

    @property
    def history(self):
        scored = [EpochRecord(0, (), (), (), 60.0, 1.0, 30.0)]
        return scored + [EpochRecord(n, (), (), (), 60.0, 1.0) for n in range(1, 200)]


def _scores(accuracy):
    return {"accuracy": accuracy, "individual_accuracy": accuracy, "nll": 1.0}


def records_of(name, size="paper"):
    _, recipe, panels = look_up(name)
    return [*recipe.records(Written(), Order(size, panels))]


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_number_has_a_record(name):
    found = [printed(record) for record in records_of(name)]
    joined = [row["id"] for row in found if row is not None]
    wanted = [row["id"] for row in published() if row["item"] == name]
    assert wanted
    assert sorted(joined) == sorted(wanted)


@pytest.mark.parametrize("name", [*TABLES[1:4], TABLES[7]])
def test_ensembles_are_those_of_figure7(name):
    _, figure, panels = look_up("sharpbalance/figure7")
    known = {work.trial.digest for work in figure.plan(Order("small", panels))}
    _, recipe, panels = look_up(name)
    assert {work.trial.digest for work in recipe.plan(Order("small", panels))} <= known


def test_gains_are_means_of_differences_between_equal_seeds():
    found = records_of("sharpbalance/table3")
    protocol, store = PROTOCOLS["paper"]["cifar100"], Written()
    balanced, sam = (
        [
            store.evaluation(each, protocol.evaluation_spec())["severities"]["4"][
                "accuracy"
            ]
            for each in protocol.trials(protocol.methods()[name])
        ]
        for name in ("sharpbalance", "sam")
    )
    (gain,) = (
        record
        for record in found
        if record.metric == "gain_over_sam" and record.at["severity"] == 4
    )
    differences = [
        100 * (one - other) for one, other in zip(balanced, sam, strict=True)
    ]
    assert gain.values == pytest.approx(differences)
    assert gain.value == pytest.approx(fmean(differences))
    assert gain.n == 3


def test_table6_gains_over_the_better_of_two():
    found = records_of("sharpbalance/table6")
    for dataset in ("cifar10", "cifar10_c", "cifar100", "cifar100_c"):
        own = {r.metric + r.method: r for r in found if r.dataset == dataset}
        others = [own["ensemble_accuracy" + name] for name in ("sam_plus", "eoa")]
        best = max(others, key=lambda record: record.value)
        gain = own["gain_over_best_othersharpbalance"]
        mean = own["ensemble_accuracysharpbalance"].value
        assert gain.value == pytest.approx(mean - best.value)
        assert gain.note == f"over {best.method}"


def test_sam_plus_gives_every_member_its_radius():
    for size in ("paper", "smoke"):
        jobs = look_up("sharpbalance/table6")[1].plan(Order(size))
        runs = [job.trial for job in jobs if isinstance(job.trial.training.method, SAM)]
        assert runs
        for trial in runs:
            assert trial.training.method.rho == (0.05, 0.1, 0.2)[: len(trial.seeds)]


def test_table7_puts_gsam_inside_sharpbalance():
    jobs = look_up("sharpbalance/table7")[1].plan(Order("paper"))
    gsam = GSAM(rho=0.2, update_statistics=True)
    inside = SharpBalance.paper(rho=0.2, fraction=0.5, switch_at=0.5, base=gsam)
    assert sum(job.trial.training.method == inside for job in jobs) == 3


WITH_RELEASED = {
    "table2": ("sam", "sharpbalance_released"),
    "table6": ("eoa", "sharpbalance_released"),
    "table7": ("gsam", "sharpbalance_released"),
    "table8": ("sam", "sharpbalance_released"),
    "figure8": ("sam", "sharpbalance_released"),
    "figure15": ("sam", "sharpbalance_released"),
}


@pytest.mark.parametrize("item", WITH_RELEASED)
def test_the_released_rule_is_trained_beside_the_papers(item):
    """The ensembles of figure 7, where sizes agree; no gain of what is not there."""
    _, recipe, panels = look_up(f"sharpbalance/{item}")
    usual = {job.trial.digest for job in recipe.plan(Order("small", panels))}
    alone = Order("small", panels, methods=("sharpbalance_released",))
    released = {job.trial.digest for job in recipe.plan(alone)}
    assert released <= usual
    _, figure, panels = look_up("sharpbalance/figure7")
    order = Order("small", panels, methods=("sharpbalance_released",))
    known = {job.trial.digest for job in figure.plan(order)}
    assert known & released
    if item.startswith("table"):
        order = Order("small", methods=WITH_RELEASED[item])
        found = [*recipe.records(Written(), order)]
        assert {each.method for each in found} == {*WITH_RELEASED[item]}
        assert not any(each.metric.startswith("gain") for each in found)


def test_cost_comes_from_the_records_of_the_run():
    history = [
        EpochRecord(0, (), (), (), 120.0, 1.0, exchange_seconds=0.0),
        EpochRecord(1, (), (), (), 60.0, 1.0, exchange_seconds=9.0),
    ]
    found = {
        record.metric: record
        for record in tables.cost_records("sharpbalance", [history], [])
    }
    assert found["scoring_minutes"].value == pytest.approx(0.15)
    assert found["total_minutes"].value == pytest.approx(3.15)
    assert found["scoring_overhead"].value == pytest.approx(5.0)


def test_the_search_reads_no_test_data():
    for work in table1.RECIPE.plan(Order("small", ())):
        sources = [work.trial.data, *(exam.test for exam in work.evaluations)]
        parts = {each.part for source in sources for each in samples_in(source)}
        assert parts == {"train"}


def test_what_is_chosen_is_the_best_cell():
    for record in (found := records_of("sharpbalance/table1", "small")):
        if not record.metric.startswith("chosen_"):
            continue
        cells = [
            other
            for other in found
            if other.metric == "held_out_accuracy"
            and (other.dataset, other.method) == (record.dataset, record.method)
        ]
        assert record.n == len(cells)
        best = max(cells, key=lambda cell: cell.value)
        field = next(f for f, (m, _) in table1.CHOSEN.items() if m == record.metric)
        chosen = best.at[field]
        if field == "switch_at":
            chosen = round(
                chosen * table1.search_protocol(Order("small"), record.dataset).epochs
            )
        assert record.value == chosen


def test_missing_sentences_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="Place msr_paraphrase_train"):
        check_needs(table5.RECIPE.plan(Order("small", ())), Store(tmp_path / "store"))
