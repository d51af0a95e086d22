"""Trials that training would refuse, found before anything is trained for them."""

from collections.abc import Callable, Mapping
from typing import Any
from warnings import catch_warnings

from torch.utils.data import Dataset

from tepui.core.listed import listed
from tepui.ensembles.ensemble import Ensemble
from tepui.studies.specifications import DataSource, Trial
from tepui.training import ExecutionSpec, LocalExchange
from tepui.training.checks import asked_for, check_run


def check_trial(
    trial: Trial,
    load: Callable[[DataSource], Dataset[Any]],
    execution: ExecutionSpec,
    shared: Mapping[str, Any],
    ensemble: Ensemble | None = None,
) -> None:
    """Refuse what training would refuse before its first step.

    Args:
        trial: What will be trained.
        load: Returns the data of a source.
        execution: How it will be trained.
        shared: Further arguments of :func:`tepui.training.train`.
        ensemble: The members that it begins with; built if they are not given.

    Raises:
        ValueError: What training would say.
    """
    members = ensemble or Ensemble.build(trial.model, len(trial.seeds), trial.seeds)
    given = {name: shared.get(name) for name in ("validation", "sample_weights")}
    given["unlabeled"] = None if trial.unlabeled is None else load(trial.unlabeled)
    with catch_warnings(action="ignore"):  # training says them at its turn
        learned = load(trial.data)
        asked = asked_for(
            members, learned, trial.training, execution, out=trial.digest, **given
        )
        check_run(members, *asked, LocalExchange())


def check_methods(trials: Mapping[str, Trial], check: Callable[[Trial], None]) -> None:
    """Refuse what training would refuse at a method's turn, with all such methods.

    Args:
        trials: One ensemble of each method, by its label.
        check: Refuses a trial that cannot be trained, see :func:`check_trial`.

    Raises:
        ValueError: What training would say, if it says the same of all methods, and
            else what it would say of each that it refuses.
    """
    refused: dict[str, ValueError] = {}
    for label, trial in trials.items():
        try:
            check(trial)
        except ValueError as error:
            refused[label] = error
    if not refused:
        return
    if len(refused) == len(trials) and len({*map(str, refused.values())}) == 1:
        raise next(iter(refused.values()))
    said = listed([f"{label}: {error}" for label, error in refused.items()])
    rule = f"be such as can be trained on these data, got {len(refused)} that cannot"
    raise ValueError(f"methods must {rule}:{said}")
