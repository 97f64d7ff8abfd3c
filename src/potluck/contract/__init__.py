"""The words in which an algorithm is written: task, networks, batch, phase, round."""

from potluck.contract.batch import Batch
from potluck.contract.networks import Networks
from potluck.contract.phase import Group, Loss, Phase, Received, Round
from potluck.contract.task import Task

__all__ = ["Batch", "Group", "Loss", "Networks", "Phase", "Received", "Round", "Task"]
