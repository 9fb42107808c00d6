"""A Spark of two threads, with workers of their own, that runs a task again which failed."""

import os
import sys

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from support import cluster_releases

# Read when the first session begins, here or in an example of a docstring.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


@pytest.fixture(scope="session")
def spark():
    cloudpickle.register_pickle_by_value(cluster_releases)  # workers cannot import a file of tests
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
    }
    builder = SparkSession.builder.master("local[2, 3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
