"""Estimators for scikit-learn that are private for each record, and features of images.

They follow scikit-learn's conventions by public names alone, and do not derive from its classes, so that importing this
module does not import scikit-learn. Parameters, pipelines, searches, cloning and pickling work as usual. Needs
scikit-learn 1.6: ``pip install "ferrodp[sklearn]"``.

`PrivateLogisticRegression`, `PrivateGaussianNB`, `PrivateCategoricalNB`
    Classifiers.
`PrivateLinearRegression`, `PrivateRidge`
    Regressions.
`PrivatePCA`, `PrivateKMeans`, `PrivateStandardScaler`, `PrivateKBinsDiscretizer`
    Components, clusters, scales and bins.
`OrientedGradients`
    Features, public.
"""

from ferrodp._base import _public
from ferrodp.integrations.sklearn.bayes import PrivateCategoricalNB, PrivateGaussianNB
from ferrodp.integrations.sklearn.classifier import PrivateLogisticRegression
from ferrodp.integrations.sklearn.features import OrientedGradients
from ferrodp.integrations.sklearn.reduction import PrivateKMeans, PrivatePCA
from ferrodp.integrations.sklearn.regression import PrivateLinearRegression, PrivateRidge
from ferrodp.integrations.sklearn.scaling import PrivateKBinsDiscretizer, PrivateStandardScaler

__all__ = [
    "OrientedGradients",
    "PrivateCategoricalNB",
    "PrivateGaussianNB",
    "PrivateKBinsDiscretizer",
    "PrivateKMeans",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateStandardScaler",
]

_public.install_in(__name__)
