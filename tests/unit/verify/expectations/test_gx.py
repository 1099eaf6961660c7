"""Importing Great Expectations without what our expectations never touch."""

import json
import subprocess
import sys
from typing import Any

import pytest

# One process finds it all, since an import takes seconds.
PROGRAM = """
import json, logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
from kafka_ferry.verify.expectations.gx import great_expectations
gx = great_expectations()
print("imported")
heavy = sorted({"scipy.optimize", "altair.utils", "pyspark.ml", "sqlalchemy"} & set(sys.modules))

import pandas as pd
context = gx.get_context(mode="ephemeral")
batch = context.data_sources.pandas_default.read_dataframe(pd.DataFrame({"a": ["x", "y"]}))
expectation = gx.expectations.ExpectColumnKLDivergenceToBeLessThan(
    column="a", threshold=0.1, partition_object={"values": ["x", "y"], "weights": [0.5, 0.5]}
)
judged = bool(batch.validate(expectation).success)

import altair, sqlalchemy, pyspark.ml.feature
from scipy import stats
afterwards = [stats.norm.cdf(0), altair.Chart.__name__, sqlalchemy.Table.__name__]
print(json.dumps({"heavy": heavy, "judged": judged, "afterwards": afterwards}))
"""


@pytest.fixture(scope="module")
def said() -> tuple[str, dict[str, Any]]:
    """What another Python prints while it imports Great Expectations, and what it finds then."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed, _, rest = done.stdout.partition("imported\n")
    return printed, json.loads(rest.splitlines()[-1])


def test_it_is_imported_without_the_libraries_that_take_most_of_the_time(said) -> None:
    assert said[1]["heavy"] == []


def test_its_import_logs_nothing_where_everything_is_logged(said) -> None:
    assert said[0] == ""


def test_an_expectation_that_needs_one_of_them_has_it(said) -> None:
    assert said[1]["judged"]


def test_what_it_went_without_can_be_imported_afterwards(said) -> None:
    assert said[1]["afterwards"] == [0.5, "Chart", "Table"]
