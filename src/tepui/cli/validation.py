"""What members are validated on: a share of the training data, or data of their own."""

from pathlib import Path
from typing import Any, cast

from torch import nn
from torch.utils.data import Dataset

from tepui.cli.datasets import FEATURES, HEADS, Data, built, run_part
from tepui.cli.other_rows import rows_like
from tepui.cli.remembered import kind_of, options_given, remembered
from tepui.cli.same_source import same_source
from tepui.core.checks import require
from tepui.data import Table, prepared_like
from tepui.data.identity import data_identity
from tepui.data.loading import length
from tepui.modules.features import cached_features
from tepui.training.inputs import divided
from tepui.training.run_folder import RunFolder

OPTION = "--validation"


def validation_data(
    validation: float | Data | None, data: Data, learned: Dataset[Any]
) -> Dataset[Any] | float | None:
    """Return what is asked for: a share, or other data as the training data are read.

    Args:
        validation: A share; or what makes a data set, of which the test part is taken,
            and of images in a folder and of a table all.
        data: What makes the training data.
        learned: The training data.

    Raises:
        ValueError: If it would be the training data's own test part, or a table that
            has other columns.
    """
    if validation is None or isinstance(validation, float | int):
        return validation
    rule = "be other data than --data, whose test part is kept for the last word"
    require(not same_source(validation, data), OPTION, rule, "the same, or a copy")
    if kind_of(validation) is not Table:
        return prepared_like(built(validation, whole=True), learned)
    given, own = options_given(validation), options_given(data)
    return rows_like(learned, given, own, OPTION)


def held_out_part(
    data: Data, run: Path, extractor: nn.Module | None = None
) -> Dataset[Any]:
    """Return what a run was validated on: other data, or a share of its training part.

    Of heads it recorded the features, which tell whether data are the same, too.
    """
    folder = RunFolder(run if extractor is None else run / HEADS)
    recorded = folder.recorded()["config"] if folder.started else {}
    expected = recorded.get("validation")
    rule = f"be test, since {run} has held out nothing (tepui train --validation 0.2)"
    require(expected is not None, "--held-out", rule, "validation")
    assert expected is not None
    whole = run_part(data, run, train=True)
    rule = f"be the data set that {run} was trained on"
    if (other := remembered(run, "validation")) is not None:
        unseen = cast(Dataset[Any], validation_data(other, data, whole))
        seen = unseen if extractor is None else _features(extractor, unseen, run)
        same = data_identity(seen) == expected
        rule = f"be test, since the data that {run} was validated on were changed"
        require(same, "--held-out", rule, "validation")
        return unseen
    count, held = length(whole), expected["samples"]
    elsewhere = f"be test, since {run} was validated on data that it does not name"
    own = f"--data with these {held} samples as its test part"
    apart = count == recorded["data"]["samples"]
    require(not apart, "--held-out", f"{elsewhere} (give {own})", "validation")
    same = count == held + recorded["data"]["samples"]
    require(same, "--data", rule, f"{count} samples")
    _, unseen = divided(whole, held / count)
    learned = unseen
    if extractor is not None:
        _, learned = divided(_features(extractor, whole, run), held / count)
    same = data_identity(learned) == expected
    require(same, "--data", rule, "others, or changed ones")
    return unseen


def _features(extractor: nn.Module, data: Dataset[Any], run: Path) -> Dataset[Any]:
    return cached_features(extractor, data, run / FEATURES)
