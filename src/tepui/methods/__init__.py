"""Ways to train an ensemble, one file each."""

from tepui.methods.a2d import A2D
from tepui.methods.base import (
    CoupledMethod,
    ExchangingMethod,
    Meeting,
    MemberMethod,
    Method,
    Turn,
)
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.divdis import DivDis
from tepui.methods.eoa import EoA
from tepui.methods.gsam import GSAM
from tepui.methods.member import Gradient, Member, Strata
from tepui.methods.sam import SAM
from tepui.methods.sed import SED
from tepui.methods.sharpbalance import SharpBalance

__all__ = [
    "A2D",
    "GSAM",
    "SAM",
    "SED",
    "CoupledMethod",
    "DeepEnsemble",
    "DivDis",
    "EoA",
    "ExchangingMethod",
    "Gradient",
    "Meeting",
    "Member",
    "MemberMethod",
    "Method",
    "SharpBalance",
    "Strata",
    "Turn",
]
