"""``tepui predict``: what a trained ensemble says of new data, in a file."""

import sys
from pathlib import Path

from tepui.cli.console import console
from tepui.cli.settings import OfPredict, read_settings
from tepui.cli.values import Data, Extractor, Models, Settings, Words


def predict(
    run: Path,
    inputs: Path | None = None,
    /,
    *,
    out: Path = Path("predictions.csv"),
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    carry: Words | None = None,
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
        tepui predict runs/flats new_flats.csv --carry id
        tepui predict runs/sam --data CIFAR10 --set rule=vote batch_size=32

    Args:
        run: The folder of a run, or of a saved ensemble.
        inputs: An image, a folder of images, an array of numbers (.npy) or a table
            (.csv, .parquet, .xlsx), prepared as the training data were. By default the
            test part of what the run was trained on.
        out: The file: .csv, .parquet or .safetensors. sample counts the rows
            of the file from 0, in the order of the inputs; row is the place of a row in
            its table, name the file of an image. prediction is the number of
            a class, counted from 0, and class its name. Quantiles and bounds carry
            their levels: quantile_0.05, lower_0.9. Of numbers, mean, std and all bounds
            are in the target's own unit, aleatoric_variance and epistemic_variance in
            its square. lower_0.9 and upper_0.9 hold 90 % if the noise that members
            predict is right; conformal_lower_… and conformal_upper_… hold what tepui
            calibrate --coverage promised. target is left out if labels number other
            classes than the run's. Images that cannot be read are left out and named,
            and the exit status is 1.
        data: A data set instead of inputs, such as CIFAR10, whose test part is used, or
            ImageFolder(path=photos). Of another table (Table(path=FILE.csv)) all rows
            are read by the columns of the run, with their targets if they have any.
        model: The members' architecture, one or one per member; needed only for models
            tepui does not know.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        carry: Columns of the table to carry over, such as id.
        probabilities: Write the probability of every class too.
        level: Call a row unfamiliar if this share of the samples that tepui calibrate
            was given looks more familiar, by several scores together; objections names
            those that say so. Of rows like those about 1 - level are called
            so too: one in a hundred by default, and of n samples one in n + 1 at the
            least (0.99 wants 99 samples).
        overwrite: Replace an existing file.
        set: Anything else, such as batch_size=32; tepui settings --of predict lists it.
    """
    from tepui.cli.folders import check_replaced
    from tepui.cli.members import opened
    from tepui.core.checks import require
    from tepui.core.text import counted
    from tepui.evaluation.predictions import KIND

    further = OfPredict(**read_settings("predict", set))
    rule = "be left out with --data"
    require(inputs is None or data is None, "inputs", rule, str(inputs))
    source = opened([run], model, extractor, lambda run: run.samples(inputs, data).data)
    check_replaced(out, KIND, overwrite)
    written = source.write_predictions(
        out,
        inputs,
        data=data,
        carry=carry or (),
        probabilities=probabilities,
        level=level,
        overwrite=overwrite,
        **vars(further),
    )
    of = " for the test data of the run" if inputs is None and data is None else ""
    terminal = console()
    terminal.print(f"{counted(written.samples, 'prediction')}{of} written to {out}")
    for line in written.said:
        terminal.print(line)
    if source.ensemble.judged_by is None:
        terminal.print(f"to learn which rows look unfamiliar: tepui calibrate {run}")
    terminal.print(f"next: look at unfamiliar and uncertain rows in {out} first")
    if written.left_out:
        said = f"{len(written.left_out)} images cannot be read and have no prediction:"
        sys.stderr.write("\n  ".join([f"tepui: {said}", *written.left_out.values()]))
        sys.stderr.write("\n")
        raise SystemExit(1)
