"""Ensembles, and members with weights from other programs."""

from tepui.ensembles.disagreements import Disagreements
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.loading import load

__all__ = ["Disagreements", "Ensemble", "ensemble_of", "load"]
