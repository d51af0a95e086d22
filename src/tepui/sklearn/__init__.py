"""Ensembles as estimators of scikit-learn, for tables of numbers.

They keep to its contract: parameters are set and copied by name, ``fit`` learns all
else, and grids, pipelines and scorers take them like any other estimator.
"""

from tepui.sklearn.classifier import EnsembleClassifier
from tepui.sklearn.regressor import EnsembleRegressor

__all__ = ["EnsembleClassifier", "EnsembleRegressor"]
