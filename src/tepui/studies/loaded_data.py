"""The data that a store was asked for last, loaded once while it holds them."""

from typing import Any

from torch.utils.data import Dataset

from tepui.studies.specifications import DataSource, DataStore

# Sets of data; the heads of one repetition of SED need half as many. Were all held, a
# study would take more memory with each of its repetitions.
MOST_HELD = 32


class LoadedData:
    """The sets of a store; what was not asked for the longest is let go."""

    def __init__(self) -> None:
        self._held: dict[str, Dataset[Any]] = {}

    def load(self, source: DataSource, store: DataStore) -> Dataset[Any]:
        """Return the data of a source."""
        name = source.digest
        dataset = self._held.pop(name, None)
        if dataset is None:
            dataset = source.load(store)
        self._held[name] = dataset
        for longest_unused in [*self._held][:-MOST_HELD]:
            del self._held[longest_unused]
        return dataset
