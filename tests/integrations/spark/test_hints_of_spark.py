"""Each way out that a message of `integrations.spark` names is taken, and no place with one is without a row."""

import pyarrow as pa
import pytest

from ferrodp.integrations.spark import private_statistic
from support.cluster_releases import count
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

TABLE = pa.table({"ill": [True, False, True]})
HINTS = [
    Hint(
        "for example spark.createDataFrame(table)",
        lambda c: private_statistic(TABLE, count),
        lambda c: private_statistic(c.createDataFrame(TABLE), count),
    )
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_spark_leads_out(hint, spark):
    lead_out(hint, spark)


def test_no_way_out_of_spark_is_without_a_test():
    assert_all_lead_out("spark", HINTS)
