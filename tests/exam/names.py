"""Every public name that the exam uses, in one table.

The exam asks what the product does and never how it is built. If a public name
changes, its right column changes here and nowhere else.
"""

from importlib import import_module
from importlib.metadata import entry_points

_PLACES = {
    "tepui": """
        AdamW Callback Constant Cosine EarlyStopping Ensemble FromFunction MultiStep
        Prune SGD aggregations cached_features evaluate fit greedy_soup
        hyperparameter_grid load measure oracle_selection read_logits uniform_soup
    """,
    "tepui.data": """
        Arrays ArraysOnDisk Augmentation Corrupted Digits FashionMNIST GaussianNoise
        HorizontalFlip HuggingFace ImageFiles ImageFolder Normalize RandomCrop
        RandomResizedCrop Table Texts UniformNoise UnlabeledFolder corrupt corrupted
        joined prepared_like split split_at to_arrays write_corrupted
    """,
    "tepui.ensembles": "ensemble_of",
    "tepui.losses": """
        MSE BinaryCrossEntropy CrossEntropy GaussianNLL Quantiles balanced_weights
    """,
    "tepui.methods": "A2D GSAM SAM SED DeepEnsemble DivDis SharpBalance SharpnessAware",
    "tepui.metrics": """
        ConformalIntervals ConformalSets Isotonic Mahalanobis NearestNeighbor
        TemperatureScaling VectorScaling ViM accuracy adaptive_ece augrc aupr aurc auroc
        balanced_accuracy brier der disagreement ece eir energy entropy fpr95
        gaussian_crps gaussian_nll individual_accuracy individual_nll interval_coverage
        interval_score logit_variance max_logit max_mean_probability mce mean_kl
        mutual_information nll pairwise_disagreement pairwise_kl pds predictive_variance
        probability_variance quantile_crps rank_correlation rmse sample_crps
        unique_predictions
    """,
    "tepui.models": "MLP Albert ConvNet ResNet18 ViTTiny from_timm split_last_layers",
    "tepui.optim": "SAM",
    "tepui.report": "write_report",
    "tepui.sharpness": """
        average_case fisher_rao fisher_trace hessian_eigenvalues hessian_trace
        input_curvature ntk_logdet pairwise_cka relative_flatness sam_sharpness
        sample_fisher_trace sample_sam_gap worst_case
    """,
    "tepui.sklearn": "EnsembleClassifier EnsembleRegressor",
    "tepui.studies": "Store compare load_reports paired_difference sweep",
    "tepui.testing": "check_corruption check_dataset check_measure check_method",
    "tepui.theory": "Setting agreement",
}

# Where two names would be equal, the exam's name says which one is meant.
NAMES = {
    f"{place}.{name}".removeprefix("tepui."): (place, name)
    for place, names in _PLACES.items()
    for name in names.split()
}


def public(name):
    """Return the public object of a name such as ``fit`` or ``methods.SAM``."""
    place, attribute = NAMES[name]
    return getattr(import_module(place), attribute)


def command():
    """Return the function behind the command ``tepui``."""
    (entry,) = entry_points(group="console_scripts", name="tepui")
    return entry.load()
