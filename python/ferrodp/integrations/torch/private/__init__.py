"""Private training in the loop that is there already: model, optimizer and loader as they were, by a plan."""

from ferrodp.integrations.torch.private.curves import CurvePoint, TrainingCurves
from ferrodp.integrations.torch.private.loader import PrivateLoader
from ferrodp.integrations.torch.private.training import PrivateTraining
from ferrodp.integrations.torch.private.wrapper import make_private

__all__ = ["CurvePoint", "PrivateLoader", "PrivateTraining", "TrainingCurves", "make_private"]
