"""Training: one function, and the values that shape it."""

from tepui.training.callbacks import Callback
from tepui.training.early_stopping import EarlyStopping
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.fit import fit
from tepui.training.history import EpochRecord
from tepui.training.member import TrainingDiverged
from tepui.training.optimizer import SGD, AdamW
from tepui.training.presence import RankLost
from tepui.training.ranks import Ranks, exchange_here
from tepui.training.run import Run, train
from tepui.training.schedule import (
    Constant,
    Cosine,
    FromFunction,
    MultiStep,
    Schedule,
)
from tepui.training.spec import ExecutionSpec, TrainingSpec

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
    "FromFunction",
    "LocalExchange",
    "MultiStep",
    "RankLost",
    "Ranks",
    "Run",
    "Schedule",
    "TrainingDiverged",
    "TrainingSpec",
    "exchange_here",
    "fit",
    "train",
]
