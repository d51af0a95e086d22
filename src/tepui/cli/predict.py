"""``tepui predict``: what a trained ensemble says of new data, in a file."""

from pathlib import Path

from tepui.cli.console import console
from tepui.cli.further import OfPredict, read_settings
from tepui.cli.values import Data, Extractor, Models, Settings


def predict(
    run: Path,
    inputs: Path | None = None,
    /,
    *,
    out: Path = Path("predictions.csv"),
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    probabilities: bool = False,
    level: float = 0.99,
    overwrite: bool = False,
    set: Settings | None = None,
) -> None:
    """Write what a trained ensemble predicts for new data.

    Calibration, conformal sets and detectors that tepui calibrate saved
    with the ensemble are applied.

    Such as:

        tepui predict runs/sam photos --out predictions.csv
        tepui predict runs/flats new_flats.csv --probabilities
        tepui predict runs/sam --data CIFAR10 --set rule=vote batch_size=32

    Args:
        run: The folder of a run, or of a saved ensemble.
        inputs: An image, a folder of images, an array of numbers (.npy) or a table
            (.csv), prepared as the training data were. By default the test part of
            what the run was trained on.
        out: The file: .csv, .parquet or .safetensors. Parts that are done lie beside it
            until all are; the same command goes on after a kill. sample counts the rows
            of the file from 0, in the order of the inputs. prediction is the number of
            a class, counted from 0, and class its name. Quantiles and bounds carry
            their levels: quantile_0.05, lower_0.9. Of numbers, mean, std and all bounds
            are in the target's own unit, aleatoric and epistemic are variances, in its
            square. lower_0.9 and upper_0.9 hold 90 % if the noise that members predict
            is right; conformal_lower_… and conformal_upper_… hold what tepui calibrate
            --coverage promised. target is left out where labels number other classes
            than the run's. Images that cannot be read are left out and named, and
            the exit status is 1.
        data: A data set instead of inputs, such as CIFAR10, whose test part is used, or
            ImageFolder(path=photos). Of another table (Table(path=FILE.csv)) all rows
            are read by the columns of the run, with their targets if they have any.
        model: The members' architecture, one or one per member; needed only for models
            tepui does not know.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        probabilities: Write the probability of every class too.
        level: Call a row unfamiliar if this share of the samples that tepui calibrate
            was given looks more familiar, by several scores together; objections names
            those that say so. Of rows like those about 1 - level are called
            so too: one in a hundred by default, and of n samples one in n + 1 at the
            least (0.99 wants 99 samples).
        overwrite: Replace an existing file, and begin anew where parts of another
            command lie beside it; parts of the same command are gone on with.
        set: Anything else, such as batch_size=32; tepui settings --of predict lists it.
    """
    import shutil
    from functools import partial

    from tepui.cli import new_samples as samples_of
    from tepui.cli.folders import check_replaced
    from tepui.cli.members import opened
    from tepui.core.checks import require
    from tepui.core.counted import counted
    from tepui.data import ImageFiles
    from tepui.data.preparation import Preparation
    from tepui.evaluation.prediction_file import check_format, write_predictions
    from tepui.evaluation.shards import KIND, BegunOtherwiseError, predict_shards
    from tepui.metrics.held_out_scores import check_level
    from tepui.training.prepare import place_of, to_device

    further = OfPredict(**read_settings("predict", set))
    rule = "be left out with --data"
    require(inputs is None or data is None, "inputs", rule, str(inputs))
    check_format(out)
    check_level(level)
    source = opened([run], model, extractor, lambda source: samples)
    check_replaced(out, KIND, overwrite)
    same = inputs is not None and out.resolve() == inputs.resolve()
    require(not same, "out", "be another file than the inputs", str(out))
    parts = out.with_name(f"{out.name}.parts")
    samples_of.check_ours(parts)
    samples, said = source.samples(inputs, data)
    to_device(source.ensemble, place_of(further.device))
    predicting = partial(
        predict_shards,
        source.ensemble,
        out=parts,
        shard_size=further.shard_size,
        rule=further.rule,
        batch_size=further.batch_size,
        workers=further.workers,
        precision=further.precision or source.exam_precision,
        logits_in="float32" if probabilities else "none",
    )
    try:
        found = samples_of.predict_readable(samples, parts, predicting)
    except BegunOtherwiseError:
        if not overwrite:
            raise
        shutil.rmtree(parts)
        found = samples_of.predict_readable(samples, parts, predicting)
    shards, samples, left_out = found
    known = source.preparation or Preparation()
    write_predictions(
        shards,
        out,
        classes=known.classes,
        units=known.units,
        names=[*map(str, samples.files)] if isinstance(samples, ImageFiles) else [],
        level=level,
        overwrite=True,
    )
    said += samples_of.unfamiliar_rows(shards, level, source)
    shutil.rmtree(parts)
    of = " for the test data of the run" if inputs is None and data is None else ""
    console().print(f"{counted(shards.samples, 'prediction')}{of} written to {out}")
    then = f"next: look at unfamiliar and uncertain rows in {out} first"
    console().print("\n".join([*said, then]))
    samples_of.end_if_left_out(left_out, shards.samples)
