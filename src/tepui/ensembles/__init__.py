"""Ensembles, their predictions, and members with weights from other programs."""

from tepui.ensembles.ensemble import Ensemble, load
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.prediction import Prediction

__all__ = ["Ensemble", "Prediction", "ensemble_of", "load"]
