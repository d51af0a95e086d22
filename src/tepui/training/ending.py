"""The end of a run: what it leaves in its folder, and the value that is returned."""

import logging
from typing import Any

from tepui.core.storage import finite_or_none
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load_into
from tepui.training.conclusions import answers_on_unlabeled
from tepui.training.epochs import Training
from tepui.training.history import History
from tepui.training.inputs import RunData
from tepui.training.run import Outcome, Run
from tepui.training.run_folder import RunFolder
from tepui.training.timeline import in_words

log = logging.getLogger(__name__)


def concluded(ensemble: Ensemble, data: RunData, training: Training) -> Run:
    """Save what came of the run, and return it; one that has not ended goes on."""
    folder, clock = training.folder, training.clock
    path = None if folder is None else folder.path
    history = History(training.history)
    if not training.ended:
        return Run(path, ensemble, Outcome(history, timeline=clock.timeline))
    if folder is not None and training.exchange.writer:
        folder.check_there()
        # Before anything of the method's can fail: hours of training are in it.
        ensemble.save(folder.path, overwrite=True)
    best_epochs, summary = _outcome(training)
    summary |= answers_on_unlabeled(ensemble, data, training.spec)
    timeline = clock.timeline
    log.info("the run took %s", in_words(timeline))
    if folder is not None and training.exchange.writer:
        folder.write_outcome(best_epochs, summary, timeline, training.stopped_by)
        log.info("the run in %s has ended", folder.path)
    training.exchange.wait()  # a run is over for all or for none
    if training.interruption.requested:
        training.interruption.leave()
    outcome = Outcome(history, best_epochs, summary, timeline, training.stopped_by)
    return Run(path, ensemble, outcome)


def _outcome(training: Training) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the epochs of the best weights and what the method has to show."""
    exchange, spec = training.exchange, training.spec
    states = exchange.collect({m.index: m.state for m in training.members})
    summary = finite_or_none(spec.method.summary(states))
    best = exchange.collect({m.index: m.best.epoch for m in training.members})
    return tuple(best) if spec.keep == "best" else (), summary


def finished(ensemble: Ensemble, folder: RunFolder) -> Run:
    """Return a run that ended before, its weights put into ``ensemble``."""
    load_into(ensemble, folder.path)
    return Run(folder.path, ensemble)
