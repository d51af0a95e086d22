"""tepui: members trained by fit into a run folder."""

import tepui
from tepui.training.optimizer import Constant


def run(make_net, train, test, folder, members, epochs, batch, settings):
    ensemble = tepui.Ensemble.build(make_net, members, seed=0)
    tepui.fit(
        ensemble,
        tepui.data.Arrays(*train),
        method=tepui.methods.DeepEnsemble(),
        epochs=epochs,
        batch_size=batch,
        optimizer=tepui.training.SGD(**settings),
        schedule=Constant(),
        out=folder / "run",
        progress="none",
    )
    return ensemble.predict(test[0]).probs
