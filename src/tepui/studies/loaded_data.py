"""The data and tests that a store was asked for, loaded or made once."""

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from tepui.data import Arrays, Corrupted, corrupted, prepared_like
from tepui.data.corruptions.copies import KEPT_BYTES
from tepui.data.corruptions.files import CorruptedFiles
from tepui.data.image_files import ImageFiles
from tepui.studies.given import Copies, GivenTest
from tepui.studies.specifications import DataSource, DataStore, EvaluationSpec

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


class LoadedTests:
    """The tests of a store; corrupted copies stay where there is room for them.

    On the host all tests share the room that the copies of one may take: those that
    come first have it.
    """

    def __init__(self) -> None:
        self._copies: dict[str, Corrupted] = {}

    def load(self, spec: EvaluationSpec, store: DataStore) -> GivenTest:
        """Return a test with its data."""
        test = store.dataset(spec.test)
        shifted = self._shifted(spec, test, store) if spec.types else None
        ood = {
            name: prepared_like(store.dataset(source), test)
            for name, source in spec.ood
        }
        return GivenTest(spec.about, test, shifted, ood, rule=spec.rule)

    def _shifted(
        self, spec: EvaluationSpec, test: Dataset[Any], store: DataStore
    ) -> Copies:
        """Return corrupted copies, which are made once where there is room for them."""
        if spec.released is not None:
            released: CorruptedFiles = spec.released(
                types=spec.types, severities=spec.severities
            )
            if isinstance(test, Arrays | ImageFiles):
                released.like = test
            return released
        if spec.digest not in self._copies:
            copies = corrupted(
                test,
                types=spec.types,
                severities=spec.severities,
                strength=spec.strength,
                keep=True,
            ).made_on(store.device)
            taken = sum(_bytes_kept(each) for each in self._copies.values())
            if taken + _bytes_kept(copies) > KEPT_BYTES:
                copies = replace(copies, keep=False)
            self._copies[spec.digest] = copies
        return self._copies[spec.digest]


def _bytes_kept(copies: Corrupted) -> int:
    """Return how much of the host's memory copies may take; those of a GPU none."""
    on_host = copies.keep and copies.dataset.device.type == "cpu"
    images = copies.dataset.inputs
    assert isinstance(images, Tensor), "images are one tensor"
    return len(copies) * images.numel() if on_host else 0
