"""Ways to train an ensemble, one file each."""

from tepui.methods.a2d import A2D
from tepui.methods.base import ExchangingMethod, MemberMethod, Method
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.divdis import DivDis
from tepui.methods.eoa import EoA
from tepui.methods.gsam import GSAM
from tepui.methods.member import Gradient, Member
from tepui.methods.sam import SAM
from tepui.methods.sed import SED
from tepui.methods.sharpbalance import SharpBalance
from tepui.methods.sharpness_aware import SharpnessAware
from tepui.methods.snapshot_ensemble import SnapshotEnsemble

__all__ = [
    "A2D",
    "GSAM",
    "SAM",
    "SED",
    "ActiveMembers",
    "CoupledBatch",
    "CoupledMethod",
    "DeepEnsemble",
    "DivDis",
    "EoA",
    "ExchangingMethod",
    "Gradient",
    "Member",
    "MemberMethod",
    "Method",
    "SharpBalance",
    "SharpnessAware",
    "SnapshotEnsemble",
]
