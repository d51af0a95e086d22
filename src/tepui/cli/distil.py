"""``tepui distil``: train one network on what an ensemble predicts."""

from pathlib import Path

from tepui.cli.values import (
    Augmentations,
    Data,
    Model,
    Optimizer,
    Settings,
    Share,
    Text,
    Whole,
)


def distil(
    run: Path,
    /,
    *,
    data: Data | None = None,
    model: Model | None = None,
    temperature: float = 1.0,
    seed: Whole = 13,
    epochs: Whole = 12,
    optimizer: Optimizer | None = None,
    augment: Augmentations | None = None,
    validation: Share | None = None,
    out: Path | None = None,
    resume: bool = False,
    config: str | None = None,
    set: Settings | None = None,
) -> None:
    """Train one network on what an ensemble predicts.

    The network costs what one member costs when it predicts. Compare both:

        tepui distil runs/sam --epochs 30 --out runs/student
        tepui evaluate runs/student --ood noise=UniformNoise
        tepui report runs/sam runs/student

    Args:
        run: The folder of a run, or of a saved ensemble.
        data: The data set, whose training part is used without its labels; by default
            that of the run.
        model: The architecture of the network; as tepui train takes it.
        temperature: What logits of classes are divided by in the loss.
        seed: The seed of all random draws.
        epochs: Length of the run.
        optimizer: SGD (the default) or AdamW, such as AdamW(lr=0.001).
        augment: Random changes of image batches, in order; the ensemble sees images as
            they are.
        validation: Share of the training data to hold out with its labels, or other
            data.
        out: The run folder; the next free runs/distil-NNN by default.
        resume: Continue the run in --out as it was asked for.
        config: Read options from this file: YAML, or the options.json of a run.
        set: Anything else, such as batch_size=32; tepui settings --of distil.
    """
    options = dict(locals())
    from tepui.cli.console import console
    from tepui.cli.folders import Keeping, folder_for, resumable
    from tepui.cli.members import fitted, opened
    from tepui.cli.settings import read_settings
    from tepui.data.sources import validation_data
    from tepui.training import distil as train
    from tepui.training.run_folder import recorded_options

    further = read_settings("distil", set)
    further |= {} if optimizer is None else {"optimizer": optimizer.read()}
    further |= {"augment": [text.read() for text in augment]} if augment else {}
    source = opened([run], None, None, lambda _: None)
    if data is None and (known := recorded_options(run).get("data")) is not None:
        options["data"] = data = Text(known, "data", typed=False)
    made_by = None if data is None else data.read()
    learned = source.part(made_by, train=True)
    unseen = validation_data(validation, made_by or learned, learned)
    architecture = fitted(None if model is None else model.read(), learned)
    folder = folder_for("distil", out, resume)
    options = {name: each for name, each in options.items() if name != "run"}
    with resumable(folder, f"distil {run}"):
        done = train(
            source.ensemble,
            learned,
            architecture,
            epochs=epochs,
            temperature=temperature,
            seed=seed,
            validation=unseen,
            callbacks=[Keeping(folder, "distil", options)],
            out=folder,
            resume=resume,
            **further,
        )
    (loss,) = done.history[-1].trained
    console().print(f"distilled {run} into {folder} (loss {loss:.4f})")
    console().print(f"next: tepui evaluate {folder}")
