"""How judges compare numbers: over shared seeds, along an axis, against a bound."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import linear_regression
from typing import Any

from tepui.papers.claims.base import ABOVE_ZERO, Finding, Judge, Region, quantile
from tepui.papers.claims.evidence import PRINTED, Datum, Evidence, label
from tepui.studies import Record, estimate, tradeoff_slope

# A spread below this share of the values is that of single precision.
ROUNDING = 1e-6
# +1 where a larger number is better, -1 where a smaller one is.
Sign = int


def combined(
    data: Sequence[Datum],
    quantity: Callable[[Sequence[float]], float],
    where: str,
    region: Region = ABOVE_ZERO,
) -> Finding:
    """Return a quantity of several numbers, from each repetition's own values."""
    records = [datum.record for datum in data]
    of_means = quantity([_value(record) for record in records])
    if all(datum.size == PRINTED for datum in data):
        return Finding(where, of_means, 0.0, 1, 0, region)
    rows = _shared_rows([record.values for record in records])
    mean = estimate(quantity(row) for row in rows)
    if not mean.count:
        return Finding(where, of_means, None, 1, 1, region)
    rounding = ROUNDING * max(abs(value) for row in rows for value in row)
    varies = mean.count > 1 and mean.error > rounding
    error, freedom = (mean.error, mean.count - 1) if varies else (None, 1)
    return Finding(where, mean.mean, error, freedom, mean.count, region)


def difference(
    first: Datum,
    second: Datum,
    where: str,
    region: Region = ABOVE_ZERO,
    sign: Sign = 1,
) -> Finding:
    """Return the first number less the second, over shared seeds."""
    return combined(
        (first, second), lambda pair: sign * (pair[0] - pair[1]), where, region
    )


def all_of(judges: Iterable[Judge]) -> Judge:
    """Return a judge whose findings are those of several."""
    several = tuple(judges)

    return lambda evidence, items: chain.from_iterable(
        judge(evidence, items) for judge in several
    )


def among(
    keep: Callable[[Datum], bool], judge: Callable[..., Iterable[Finding]]
) -> Callable[..., Iterable[Finding]]:
    """Return a judge that sees only some of the numbers."""
    return lambda evidence, items, **more: judge(
        Evidence(tuple(filter(keep, evidence.data))), items, **more
    )


def duels(
    evidence: Evidence,
    items: Iterable[str],
    metric: str,
    winner: str,
    rivals: Sequence[str] | None = None,
    *,
    sign: Sign = 1,
    region: Region = ABOVE_ZERO,
    **names: Any,
) -> Iterator[Finding]:
    """Yield by how much a method beats others, wherever both were measured."""
    for group, methods in evidence.groups(items, ["method"], metric=metric, **names):
        for rival in rivals or [name for name in methods if name != winner]:
            if winner in methods and rival in methods:
                where = f"{winner} against {rival}, {metric}: {label(group)}"
                pair = methods[winner], methods[rival]
                yield difference(*pair, where, region, sign)


def trends(
    evidence: Evidence,
    items: Iterable[str],
    metric: str,
    axis: str,
    *,
    sign: Sign = 1,
    log_log: bool = False,
    region: Region = ABOVE_ZERO,
    **names: Any,
) -> Iterator[Finding]:
    """Yield how a number changes along an axis, for each method."""
    for group, points in evidence.groups(items, [axis], metric=metric, **names):
        if len(points) < 2:
            continue
        places = sorted(points)
        where = f"{metric} of {group['method']} over {axis}: {label(group)}"
        x = _logs(places) if log_log else [float(place) for place in places]
        data = [points[place] for place in places]

        def slope(values: Sequence[float], x: Sequence[float] = x) -> float:
            y = _logs(values) if log_log else values
            return sign * linear_regression(x, y).slope

        yield combined(data, slope, where, region)


def gap_trends(
    evidence: Evidence,
    items: Iterable[str],
    metric: str,
    axis: str,
    winner: str,
    rivals: Sequence[str],
) -> Iterator[Finding]:
    """Yield how a method's lead over others grows along an axis."""
    for group, points in evidence.groups(items, ["method", axis], metric=metric):
        methods: dict[Any, dict[str, Datum]] = {}
        for (method, place), datum in points.items():
            methods.setdefault(place, {})[method] = datum
        wanted = {winner, *rivals}
        places = sorted(place for place in methods if wanted <= {*methods[place]})
        if len(places) < 2:
            continue
        data = [methods[place][winner] for place in places]
        data += [best(methods[place], rivals, 1) for place in places]
        x = [float(place) for place in places]

        def slope(values: Sequence[float], x: Sequence[float] = x) -> float:
            leads = [a - b for a, b in zip(values, values[len(x) :], strict=False)]
            return linear_regression(x, leads).slope

        others = " and ".join(rivals)
        others = f"the better of {others}" if len(rivals) > 1 else others
        where = f"lead of {winner} over {others} by {axis}: {label(group)}"
        yield combined(data, slope, where)


def levels(
    evidence: Evidence,
    items: Iterable[str],
    metric: str,
    *,
    region: Region = ABOVE_ZERO,
    **names: Any,
) -> Iterator[Finding]:
    """Yield numbers themselves."""
    for datum in evidence.find(items, metric=metric, **names):
        said = ", ".join([metric.replace("_", " "), *names.values()])
        yield level(datum, f"{said}: {label(datum.names)}", region)


def level(datum: Datum, where: str, region: Region = ABOVE_ZERO) -> Finding:
    """Return a number itself, with its own error."""
    if datum.size == PRINTED:
        return Finding(where, _value(datum.record), 0.0, 1, 0, region)
    error, freedom = _error(datum.record)
    return Finding(where, _value(datum.record), error, freedom, datum.record.n, region)


def log_line(x: Sequence[Datum], y: Sequence[Datum], where: str) -> Finding | None:
    """Return the slope of logarithms, one point per ensemble, about its line."""
    pairs = [_shared_rows([a.record.values, b.record.values]) for a, b in _both(x, y)]
    points = [(a, b) for a, b in chain.from_iterable(pairs) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 2:
        return None
    line = tradeoff_slope([a for a, _ in points], [b for _, b in points])
    freedom = line.count - 2
    known = freedom and _from_interval((line.low, line.high), freedom)
    error = known or None  # a line through all points does not tell its error
    return Finding(where, line.slope, error, max(1, freedom), line.count)


def apart(larger: Finding, smaller: Finding, where: str) -> Finding:
    """Return the difference of two findings that share no repetitions, after Welch."""
    effect, count = larger.effect - smaller.effect, min(larger.n, smaller.n)
    found = replace(larger, where=where, effect=effect, n=count)
    if not larger.error or not smaller.error:
        return replace(found, error=None, freedom=1)
    squares = [larger.error**2, smaller.error**2]
    freedoms = [larger.freedom, smaller.freedom]
    spread = sum(s**2 / f for s, f in zip(squares, freedoms, strict=True))
    freedom = sum(squares) ** 2 / spread
    return replace(found, error=math.sqrt(sum(squares)), freedom=freedom)


def best(methods: Mapping[str, Datum], names: Iterable[str], sign: Sign) -> Datum:
    """Return the best of some methods by their means; equal ones by their names."""
    candidates = [methods[name] for name in names]
    return max(candidates, key=lambda d: (sign * _value(d.record), d.record.method))


def _shared_rows(
    columns: Sequence[Sequence[float | None]],
) -> list[tuple[float, ...]]:
    """Return what each unit measured, where all numbers are defined."""
    if len({len(column) for column in columns}) != 1:
        return []
    rows: list[tuple[float, ...]] = []
    for row in zip(*columns, strict=True):
        defined = tuple(v for v in row if v is not None and not math.isnan(v))
        if len(defined) == len(columns):
            rows.append(defined)
    return rows


def _both(x: Sequence[Datum], y: Sequence[Datum]) -> Iterator[tuple[Datum, Datum]]:
    """Yield the numbers of one radius."""
    by_radius = {datum.names["rho"]: datum for datum in y}
    for datum in x:
        if datum.names["rho"] in by_radius:
            yield datum, by_radius[datum.names["rho"]]


def _value(record: Record) -> float:
    assert record.value is not None
    return record.value


def _error(record: Record) -> tuple[float | None, float]:
    """Return a number's standard error, if it is known, and its degrees of freedom."""
    if record.sem is not None:
        return record.sem, max(1, record.n - 1)
    if record.interval is None or record.n < 3:
        return None, 1
    return _from_interval(record.interval, record.n - 2), record.n - 2


def _from_interval(interval: tuple[float, float], freedom: float) -> float:
    return (interval[1] - interval[0]) / 2 / quantile(freedom)


def _logs(values: Iterable[float]) -> list[float]:
    return [math.log(value) for value in values]
