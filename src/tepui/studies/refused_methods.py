"""Methods that a comparison cannot train, found before it trains any."""

from collections.abc import Mapping
from warnings import catch_warnings

from tepui.core.listed import listed
from tepui.ensembles.ensemble import Ensemble
from tepui.studies.specifications import Trial
from tepui.studies.store import Store
from tepui.training import LocalExchange
from tepui.training.refusals import asked_for, check_run


def check_methods(
    trials: Mapping[str, Trial], ensemble: Ensemble, store: Store
) -> None:
    """Refuse what training would refuse at a method's turn, with all such methods.

    Args:
        trials: One ensemble of each method, by its label.
        ensemble: The members that each of them begins with.
        store: Where they will be trained.

    Raises:
        ValueError: What training would say, if it says the same of all methods, and
            else what it would say of each that it refuses.
    """
    refused: dict[str, ValueError] = {}
    for label, trial in trials.items():
        try:
            with catch_warnings(action="ignore"):  # training says them at its turn
                _check(trial, ensemble, store)
        except ValueError as error:
            refused[label] = error
    if not refused:
        return
    if len(refused) == len(trials) and len({*map(str, refused.values())}) == 1:
        raise next(iter(refused.values()))
    said = listed([f"{label}: {error}" for label, error in refused.items()])
    rule = f"be such as can be trained on these data, got {len(refused)} that cannot"
    raise ValueError(f"methods must {rule}:{said}")


def _check(trial: Trial, ensemble: Ensemble, store: Store) -> None:
    unlabeled = None if trial.unlabeled is None else store.dataset(trial.unlabeled)
    data, spec = asked_for(
        ensemble,
        store.dataset(trial.data),
        trial.training,
        store.execution,
        validation=store.shared.get("validation"),
        unlabeled=unlabeled,
        sample_weights=store.shared.get("sample_weights"),
        out=store.folder(trial),
    )
    check_run(ensemble, data, spec, LocalExchange())
