"""Training: one function, and the values that shape it."""

from tepui.engine.exchange import Exchange, LocalExchange
from tepui.engine.fit import fit
from tepui.engine.learner import TrainingDiverged
from tepui.engine.optimizer import SGD, AdamW
from tepui.engine.run import EpochRecord, Run
from tepui.engine.schedule import Constant, Cosine, MultiStep, Schedule
from tepui.engine.tensorboard import TensorBoard

__all__ = [
    "SGD",
    "AdamW",
    "Constant",
    "Cosine",
    "EpochRecord",
    "Exchange",
    "LocalExchange",
    "MultiStep",
    "Run",
    "Schedule",
    "TensorBoard",
    "TrainingDiverged",
    "fit",
]
