"""What every task promises, whatever outputs mean."""

import json
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.tasks.base import Promise, Task
from tepui.tasks.named import read_task, task_of
from tepui.tasks.prediction import FIELDS
from tepui.testing.expecting import Subject

MEMBERS, COVERAGE = 3, 0.5


def check_task(task: Task, targets: Tensor) -> None:
    """Check that a task does what every task of tepui does.

    It is a value that survives its text, and the task of its own loss; predictions have
    what they say, in any order of members; scores do not depend on how samples are cut;
    calibrations and conformal sets or intervals that it names can be fitted, and these
    hold as often as promised on their own data.

    Args:
        task: The task.
        targets: Some that it can have, one per sample, at least two dozen.

    Raises:
        AssertionError: If it does not; the message names task, rule and what was seen.

    Example:
        >>> from tepui.tasks import Numbers
        >>> check_task(Numbers(), torch.linspace(-1, 1, 24))
    """
    must, count = Subject(str(task)).must, task.answers_in(targets, ())
    shape = MEMBERS, len(targets), (count and task.outputs(count)) or 2
    outputs = torch.randn(shape, generator=generator(0, "task"))
    again = read_task(task.written())
    must("survive its text", again == task, again)
    if task.loss is not None:
        must("be that of its loss", task_of(task.loss) == task, task_of(task.loss))
        each = tuple(task.loss(outputs[0], targets).shape)
        must("have one loss per sample", each == (len(targets),), each)
    out = task.prediction(outputs)
    has = out.fields
    wrong = [name for name in FIELDS if hasattr(out, name) != (name in has)]
    must("have the fields that it names", not wrong, wrong)
    must("be printed", str(task) in str(out), str(out))
    _check_answers(task, outputs, targets)
    _check_scores(task, outputs, targets)
    for method in task.calibrations:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # random outputs tell nothing
            fitted = task.fit_calibration(outputs, targets, method, "probability")
        must("calibrate as asked", fitted.method == method, fitted.method)
    for score in task.conformal:
        made = task.fit_conformity(outputs, targets, Promise(COVERAGE, score))
        found = task.prediction(outputs, conformity=made).held(targets)
        share = found.held / found.answers
        must(f"hold what it promises by {score}", share >= COVERAGE, share)


def _check_answers(task: Task, outputs: Tensor, targets: Tensor) -> None:
    both = []
    for some in (outputs, outputs.flip(0)):
        out = task.prediction(some)
        judged = out.scores(out.judging) | task.unfamiliarity(some)
        both.append(out.statistics(targets) | out.exported(COVERAGE) | judged)
    sizes = {name: len(values) for name, values in both[0].items()}
    fits = {*sizes.values()} == {len(targets)}
    Subject(str(task)).must("answer each sample", fits, sizes)
    one, other = ([*answers.values()] for answers in both)
    rule = "not depend on the order of members"
    Subject(str(task)).must_agree(rule, one, other, atol=1e-5)


def _check_scores(task: Task, outputs: Tensor, targets: Tensor) -> None:
    found = []
    for cut in (len(targets), 7):
        stream = task.stream(outputs, "probability")
        for part, wanted in zip(outputs.split(cut, 1), targets.split(cut), strict=True):
            stream.update(part, wanted)
        measured, _ = stream.result({})
        found.append(torch.tensor([*measured.values().values()]))
    subject, known = Subject(str(task)), measured.values().keys()
    subject.must_agree("have scores however samples are cut", found[:1], found[1:])
    shown = {*(() if task.leading is None else task.leading.shown)}
    subject.must("have the scores that it leads by", shown <= known, shown - known)
    subject.must("be kept in JSON", bool(json.dumps(measured.document())), measured)
