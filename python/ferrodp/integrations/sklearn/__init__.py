"""Estimators for scikit-learn: a classifier that is private for each record, and features of images.

They follow scikit-learn's conventions by public names alone, and do not derive from its classes, so that importing this
module does not import scikit-learn. Parameters, pipelines, searches, cloning and pickling work as usual. Needs
scikit-learn 1.6: ``pip install "ferrodp[sklearn]"``.

`PrivateLogisticRegression`
    The classifier.
`OrientedGradients`
    The features.
"""

from ferrodp import _public
from ferrodp.integrations.sklearn.classifier import PrivateLogisticRegression
from ferrodp.integrations.sklearn.features import OrientedGradients

__all__ = ["OrientedGradients", "PrivateLogisticRegression"]

_public.install_in(__name__)
