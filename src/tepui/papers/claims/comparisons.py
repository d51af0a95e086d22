"""How judges compare numbers: over shared seeds, along an axis, against a bound."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import linear_regression
from typing import Any

from tepui.papers.claims.base import Finding, Judge, quantile
from tepui.papers.claims.evidence import PRINTED, Datum, Evidence, label
from tepui.studies import Record, estimate, tradeoff_slope

Region = tuple[float, float]
ABOVE_ZERO: Region = (0.0, math.inf)
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
    of_means = quantity([_value(datum.record) for datum in data])
    if all(datum.size == PRINTED for datum in data):
        return _finding(data, where, region, of_means, 0.0, 1, 0)
    rows = _repetitions([datum.record for datum in data])
    mean = estimate(quantity(row) for row in rows)
    if not mean.count:
        return _finding(data, where, region, of_means, None, 1, 1)
    rounding = ROUNDING * max(abs(value) for row in rows for value in row)
    varies = mean.count > 1 and mean.error > rounding
    error, freedom = (mean.error, mean.count - 1) if varies else (None, 1)
    return _finding(data, where, region, mean.mean, error, freedom, mean.count)


def difference(
    first: Datum, second: Datum, where: str, region: Region = ABOVE_ZERO, sign: Sign = 1
) -> Finding:
    """Return the first number less the second, over shared seeds."""
    pair = first, second
    return combined(pair, lambda v: sign * (v[0] - v[1]), where, region)


def all_of(judges: Iterable[Judge]) -> Judge:
    """Return a judge whose findings are those of several."""
    several = tuple(judges)

    def judge(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
        return chain.from_iterable(judge(evidence, items) for judge in several)

    return judge


def among(keep: Callable[[Datum], bool], judge: Judge) -> Judge:
    """Return a judge that sees only some of the numbers."""
    return lambda evidence, items: judge(
        Evidence(tuple(filter(keep, evidence.data))), items
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
    target: float = 0.0,
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
            return sign * linear_regression(x, y).slope - target

        trend = combined(data, slope, where, region)
        if log_log and trend.n < 2 and len(places) > 2 and group["size"] != PRINTED:
            trend = _about_the_line(data, x, trend)
        yield trend


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
    words: str = "",
    region: Region = ABOVE_ZERO,
    **names: Any,
) -> Iterator[Finding]:
    """Yield numbers themselves."""
    for datum in evidence.find(items, metric=metric, **names):
        said = ", ".join([words or metric.replace("_", " "), *names.values()])
        yield level(datum, f"{said}: {label(datum.names)}", region)


def level(datum: Datum, where: str, region: Region = ABOVE_ZERO) -> Finding:
    """Return a number itself, with its own error."""
    effect = _value(datum.record)
    if datum.size == PRINTED:
        return _finding([datum], where, region, effect, 0.0, 1, 0)
    error, freedom = _error(datum.record)
    return _finding([datum], where, region, effect, error, freedom, datum.record.n)


def apart(larger: Datum, smaller: Datum, where: str) -> Finding:
    """Return the difference of two numbers that share no repetitions."""
    pair = larger, smaller
    effect = _value(larger.record) - _value(smaller.record)
    if all(datum.size == PRINTED for datum in pair):
        return _finding(pair, where, ABOVE_ZERO, effect, 0.0, 1, 0)
    errors, freedoms = zip(*(_error(datum.record) for datum in pair), strict=True)
    count = min(larger.record.n, smaller.record.n)
    if None in errors or not any(errors):
        return _finding(pair, where, ABOVE_ZERO, effect, None, 1, count)
    squares = [error**2 for error in errors]
    spread = sum(s**2 / f for s, f in zip(squares, freedoms, strict=True))
    freedom = sum(squares) ** 2 / spread
    error = math.sqrt(sum(squares))
    return _finding(pair, where, ABOVE_ZERO, effect, error, freedom, count)


def best(methods: Mapping[str, Datum], names: Iterable[str], sign: Sign) -> Datum:
    """Return the best of some methods by their means; equal ones by their names."""
    candidates = [methods[name] for name in names]
    return max(candidates, key=lambda d: (sign * _value(d.record), d.record.method))


def _about_the_line(
    data: Sequence[Datum], x: Sequence[float], trend: Finding
) -> Finding:
    """Return an exponent with the error of the points about the line."""
    line = tradeoff_slope(x, _logs(_value(d.record) for d in data), log=False)
    freedom = line.count - 2
    error = _from_interval((line.low, line.high), freedom) or None
    return replace(trend, error=error, freedom=freedom, n=line.count)


def _finding(
    data: Sequence[Datum],
    where: str,
    region: Region,
    effect: float,
    error: float | None,
    freedom: float,
    n: int,
) -> Finding:
    commands = dict.fromkeys(datum.command for datum in data if datum.command)
    return Finding(
        where=where,
        effect=effect,
        error=error,
        freedom=freedom,
        n=n,
        low=region[0],
        high=region[1],
        commands=tuple(commands),
    )


def _repetitions(records: Sequence[Record]) -> list[tuple[float, ...]]:
    """Return what each repetition measured, where all numbers are defined."""
    if len({len(record.values) for record in records}) != 1:
        return []
    rows = zip(*(record.values for record in records), strict=True)
    return [row for row in rows if not any(v is None or math.isnan(v) for v in row)]


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
