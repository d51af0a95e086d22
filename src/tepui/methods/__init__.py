"""Ways to train an ensemble, one file each."""

from tepui.methods.base import CoupledMethod, ExchangingMethod, MemberMethod, Method
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.member import Gradient, Member
from tepui.methods.sam import SAM

__all__ = [
    "SAM",
    "CoupledMethod",
    "DeepEnsemble",
    "ExchangingMethod",
    "Gradient",
    "Member",
    "MemberMethod",
    "Method",
]
