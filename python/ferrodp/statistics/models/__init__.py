"""Models over exact sums: moments, regression, principal components, clusters, naive Bayes, scales of columns.

Each is one exact sum of clipped rows, or a few, or exact counts, released with noise under one payment. What is made of
a released sum is post-processing: it costs nothing, and may be repeated in other ways.
"""

from ferrodp._base import _public
from ferrodp.statistics.models.bayes import NaiveBayes, private_naive_bayes
from ferrodp.statistics.models.categorical import CategoricalBayes, private_categorical_bayes
from ferrodp.statistics.models.clusters import Clusters, private_clusters
from ferrodp.statistics.models.moments import (
    LinearModel,
    PrincipalComponents,
    PrivateMoments,
    private_moments,
)
from ferrodp.statistics.models.scales import ColumnScales, private_scales

__all__ = [
    "CategoricalBayes",
    "Clusters",
    "ColumnScales",
    "LinearModel",
    "NaiveBayes",
    "PrincipalComponents",
    "PrivateMoments",
    "private_categorical_bayes",
    "private_clusters",
    "private_moments",
    "private_naive_bayes",
    "private_scales",
]

_public.install_in(__name__)
