"""Private training with numpy: a trainer that needs no tuning, optimizers, callbacks, and accounted searches.

`train`
    Trains a classifier, `SoftmaxModel`, for a target ε. `recipe` says beforehand what it will do.
`fit`
    A loop over the steps of a `ferrodp.plan.PrivacyPlan` with gradients, an optimizer and callbacks of your own.
`SGD`, `Momentum`, `Adam`
    Optimizers on trees of arrays. Any optimizer is post-processing.
`PrivacyMonitor`, `BudgetStop`, `ProgressBar`, `CsvLog`, `JsonLog`
    Callbacks; derive your own from `Callback`.
`select`
    The best of a random number of trainings, accounted: a search for hyperparameters.
`oriented_gradients`
    Features of images, with fixed constants.
"""

from ferrodp.training.callbacks import BudgetStop, PrivacyMonitor
from ferrodp.training.features import oriented_gradients
from ferrodp.training.logs import CsvLog, JsonLog, ProgressBar
from ferrodp.training.loop import Callback, Progress, fit
from ferrodp.training.optimizers import SGD, Adam, Momentum, Optimizer
from ferrodp.training.selection import Selection, select
from ferrodp.training.softmax import Recipe, SoftmaxModel, recipe, train

__all__ = [
    "SGD",
    "Adam",
    "BudgetStop",
    "Callback",
    "CsvLog",
    "JsonLog",
    "Momentum",
    "Optimizer",
    "PrivacyMonitor",
    "Progress",
    "ProgressBar",
    "Recipe",
    "Selection",
    "SoftmaxModel",
    "fit",
    "oriented_gradients",
    "recipe",
    "select",
    "train",
]
