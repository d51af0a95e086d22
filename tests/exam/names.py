"""Every public name that the exam uses, in one table.

The exam asks what the product does and never how it is built. If a public name
changes, its right column changes here and nowhere else.
"""

from importlib import import_module
from importlib.metadata import entry_points

_PLACES = {
    "tepui": """
        SGD AdamW Callback Constant Cosine EarlyStopping Ensemble MultiStep
        Prune Run aggregations cached_features evaluate fit greedy_soup
        hyperparameter_grid load measure oracle_selection read_logits uniform_soup
    """,
    "tepui.data": """
        CIFAR10 CIFAR100 CIFAR10C CORRUPTIONS MRPC STANDARD ArrayFile Arrays
        ArraysOnDisk Augmentation Corrupted CutMix Digits FashionMNIST
        HorizontalFlip ImageFiles ImageFolder Mixup Normalize RandomCrop
        RandomResizedCrop Table Texts TinyImageNet TinyImageNetC Tokenizer UniformNoise
        UnlabeledFolder corrupt corrupted corrupted_files prepared_like split
        split_at to_arrays write_corrupted
    """,
    "tepui.ensembles": "ensemble_of",
    "tepui.evaluation": """
        FeatureDetectors
        prediction_cost read_evaluation write_predictions
    """,
    "tepui.export": "export_ensemble",
    "tepui.hub": "from_pretrained model_card save_pretrained",
    "tepui.losses": """
        MSE BinaryCrossEntropy CrossEntropy GaussianNLL Quantiles balanced_weights
    """,
    "tepui.methods": """
        A2D EoA GSAM SAM SED DeepEnsemble DivDis SharpBalance
        SharpnessAware SnapshotEnsemble
    """,
    "tepui.metrics": """
        ConformalIntervals ConformalSets Isotonic Mahalanobis NearestNeighbor
        SampleMean TemperatureScaling VectorScaling accuracy aupr aurc auroc
        balanced_accuracy brier corruption_accuracy der disagreement ece eir
        energy ensemble_predictions ensemble_probs entropy fpr95 gaussian_crps
        gaussian_nll individual_accuracy individual_nll interval_coverage
        logit_variance max_logit max_mean_probability mean_kl mutual_information
        nll pairwise_disagreement pairwise_kl pds predictive_variance
        probability_variance quantile_crps rank_correlation rmse sample_crps
        subset_accuracy subset_vote unique_predictions
    """,
    "tepui.models": """
        MLP VGG19 VGG19BN Albert ConvNet ResNet18 ViTTiny WideResNet40x2 from_timm
        load_torchvision split_last_layers
    """,
    "tepui.modules": "sparsity_of",
    "tepui.optim": "SAM",
    "tepui.papers": "Order look_up reproduce",
    "tepui.report": "load_reports printed_table write_report",
    "tepui.sharpness": """
        average_case cka fisher_rao fisher_trace hessian_eigenvalues hessian_trace
        input_curvature ntk_logdet pairwise_cka relative_flatness sam_sharpness
        sample_fisher_trace sample_hessian_trace sample_input_curvature sample_sam_gap
        sample_worst_case_gap worst_case
    """,
    "tepui.sklearn": "EnsembleClassifier EnsembleRegressor",
    "tepui.studies": """
        EvaluationSpec Job Processes Samples Store Trial carry_out compare
        crossed_difference estimate
        estimate_pairs holm paired_difference read_results search
        seeds sweep tradeoff_slope verify
    """,
    "tepui.testing": """
        check_corruption check_dataset check_measure check_method check_metric
    """,
    "tepui.tasks": "Numbers",
    "tepui.theory": """
        Setting agreement ascended_rise eta_at_sharpness iterate_sam largest_rise phi
        phi_exact phi_multinomial simulate_sam stable subset_constant theorem1 theorem2
        unroll_sam
    """,
    "tepui.training": "LocalExchange TrainingSpec",
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
