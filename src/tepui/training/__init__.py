"""Training: one function, and the values that shape it."""

from tepui.training.distillation import distil
from tepui.training.exchange import Exchange, LocalExchange, RankLost
from tepui.training.history import Callback, EarlyStopping, EpochRecord
from tepui.training.member import TrainingDiverged
from tepui.training.optimizer import SGD, AdamW, Constant, Cosine, MultiStep, Schedule
from tepui.training.ranks import Ranks, exchange_here
from tepui.training.run import Run
from tepui.training.spec import ExecutionSpec, TrainingSpec
from tepui.training.train import fit, train

__all__ = [
    "SGD",
    "AdamW",
    "Callback",
    "Constant",
    "Cosine",
    "EarlyStopping",
    "EpochRecord",
    "Exchange",
    "ExecutionSpec",
    "LocalExchange",
    "MultiStep",
    "RankLost",
    "Ranks",
    "Run",
    "Schedule",
    "TrainingDiverged",
    "TrainingSpec",
    "distil",
    "exchange_here",
    "fit",
    "train",
]
