"""What studies do with bad input: one sentence, and nothing lost."""

import json
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread

import pytest

from study_cases import EXAM, TRIAL
from tepui.core.storage import read_json, seal, write_json
from tepui.data import Digits
from tepui.methods import SAM, DeepEnsemble, MemberMethod
from tepui.models import MLP
from tepui.report.loading import load_reports
from tepui.studies import Job, Store, carry_out, compare, read_results, verify
from tepui.studies.job import JobError
from tepui.studies.specifications import Samples
from tepui.training import SGD, TrainingDiverged

TRAIN, TEST = Digits().subset(range(64)), Digits(train=False).subset(range(30))
SMALL = {"members": 2, "ensembles": 1, "epochs": 1, "progress": "none"}
FAILING = Job(replace(TRIAL, data=Samples(Digits, count=5000)), (EXAM,))
SOUND = Job(TRIAL.trained_with(method=DeepEnsemble()), (EXAM,))


@dataclass(frozen=True, kw_only=True)
class Priceless(MemberMethod):
    """A method that does not say what its epochs cost."""

    def gradient(self, member, batch):
        return member.gradient(batch)


PLAIN = DeepEnsemble()


def compared(out, methods=(PLAIN,), test=TEST, **changes):
    how = {**SMALL, **changes, "out": out}
    return compare(methods, partial(MLP, hidden=(4,)), TRAIN, test, **how)


def of_another_version(folder):
    document = {**seal("index", {"names": {}}), "format": 3}
    write_json(folder / "index.json", document)
    with pytest.raises(ValueError, match=r"index.json must be of format 2, .* got"):
        Store(folder)


def two_studies_at_once(folder):
    trained = []
    shared = {"callbacks": [lambda record: trained.append(record.epoch)]}
    jobs = [Job(replace(TRIAL, seeds=seeds)) for seeds in ((3, 4), (5, 6))]
    studies = [
        Thread(target=carry_out, args=(jobs, Store(folder, device="cpu")))
        for _ in range(2)
    ]
    for study in studies:
        study.start()
    for study in studies:
        study.join()
    carry_out(jobs, Store(folder, device="cpu", shared=shared))
    assert not trained
    epochs = [
        len(file.read_text().splitlines()) for file in folder.glob("*/metrics.jsonl")
    ]
    assert epochs == [TRIAL.training.epochs] * 2


def a_failing_job(folder):
    store = Store(folder, device="cpu")
    message = rf"^SAM \({FAILING.trial.digest}\): ValueError: count must be at most"
    with pytest.raises(JobError, match=message):
        carry_out([FAILING, SOUND], store)
    assert store.has(SOUND.trial, EXAM)


def a_diverging_method(folder):
    rates = {"optimizer": SGD(lr=1e30), "epochs": 2, "equal": None}
    with pytest.raises(TrainingDiverged, match=r"SAM, ensemble 1: .*; DeepEnsemble, e"):
        compared(folder, [SAM(), DeepEnsemble()], **rates)


def a_method_without_a_price(folder):
    said = []
    compared(folder, [Priceless(), SAM()], announce=said.append, dry_run=True)
    rule = "Priceless: counts as one gradient a sample (define relative_cost)"
    assert rule in said


def records_edited_by_hand(folder):
    compared(folder)
    document = read_json(folder / "results.json")
    document["records"][0]["value"] = 1.0
    (folder / "results.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"its digest differs.*make them again with"):
        read_results(folder)
    (damaged,) = [each for each in verify(folder) if each.damage]
    assert damaged.file.name == "results.json"


def runs_on_different_test_data(folder):
    other = Digits(train=False).subset(range(30, 60))
    for name, test in (("one", TEST), ("two", other)):
        compared(folder / name, test=test)
    with pytest.raises(ValueError, match=r"must be on the same data as .* differs, .*"):
        load_reports([folder / name / "DeepEnsemble" / "0" for name in ("one", "two")])
    with pytest.raises(ValueError, match=r"methods must hold .* these differ: test"):
        compared(folder / "one", [SAM()], test=other, resume=True)


def one_seed(folder):
    found = compared(folder, [DeepEnsemble(), SAM()])
    for metric in ("accuracy_gain", "accuracy_difference"):
        for record in found.find(metric=metric):
            assert (record.n, record.interval, record.note) == (1, None, "hint")


CASES = [
    of_another_version,
    two_studies_at_once,
    a_failing_job,
    a_diverging_method,
    a_method_without_a_price,
    records_edited_by_hand,
    runs_on_different_test_data,
    one_seed,
]


@pytest.mark.filterwarnings("ignore:member . may not")
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_met_with_a_sentence_and_nothing_is_lost(case, tmp_path):
    case(tmp_path)
