"""Which methods of a printed comparison are apart from the first, and how."""

from collections.abc import Iterator, Mapping, Sequence

from tepui.studies.contrasts import contrast, one_prediction
from tepui.studies.method_result import MethodResult, scores_on
from tepui.studies.significance import Difference
from tepui.studies.trained import Trained

# What a printed comparison shows, of whatever task it is, and which sign is better.
BETTER = {
    "individual_accuracy": 1,
    "accuracy": 1,
    "mean_iou": 1,
    "mean_average_precision": 1,
    "mean_auroc": 1,
    "rmse": -1,
    "crps": -1,
    "quantile_loss": -1,
    "nll": -1,
    "ece": -1,
}


def apart_lines(
    methods: Sequence[MethodResult], kinds: Mapping[str, str], names: Sequence[str]
) -> Iterator[str]:
    """Yield which scores are apart from the first method's, by their paired intervals.

    Args:
        methods: The methods; the first is what the others are compared to.
        kinds: Kinds of data, with what they are called.
        names: Scores.

    Yields:
        Lines of text; none where no two methods share the seeds of two ensembles.
    """
    base, *others = methods
    known, lines = False, []
    for method in others:
        for data, shown in kinds.items():
            found = {name: _difference(method, base, data, name) for name in names}
            known |= any(found.values())
            said = [_said(n, each) for n, each in found.items() if each and each.apart]
            if said:
                lines.append(f"  {method.label} on {shown} data: {', '.join(said)}")
    if known:
        beside = "; hints, as chance alone brings one in twenty" if lines else ""
        yield (
            f"  {'apart' if lines else 'nothing is apart'} from {base.label} "
            f"(95 % intervals over ensembles of the same seeds{beside})"
        )
    yield from lines


def _difference(
    method: MethodResult, base: MethodResult, data: str, name: str
) -> Difference | None:
    def read(trained: Trained) -> float | None:
        return scores_on(data, trained.evaluation).get(name)

    return contrast(method, base, read, one_prediction(name, data, method))


def _said(name: str, found: Difference) -> str:
    worth = BETTER.get(name, 0) * found.mean  # of one's own metric not known
    judged = " (better)" if worth > 0 else " (worse)" if worth < 0 else ""
    return f"{name.replace('_', ' ')} {found.mean:+.2g}{judged}"
