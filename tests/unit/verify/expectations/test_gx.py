"""Importing Great Expectations without what our expectations never touch."""

import subprocess
import sys


def said(code: str) -> str:
    """What another Python prints, which has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_it_is_imported_without_the_libraries_that_take_most_of_the_time() -> None:
    code = (
        "import sys; from kafka_ferry.verify.expectations.gx import great_expectations as gx; gx()\n"
        "print(sorted({'scipy.optimize', 'altair.utils', 'pyspark.ml', 'sqlalchemy'} & set(sys.modules)))"
    )
    assert said(code) == "[]"


def test_what_it_went_without_can_be_imported_afterwards() -> None:
    code = (
        "from kafka_ferry.verify.expectations.gx import great_expectations as gx; gx()\n"
        "import altair, sqlalchemy, pyspark.ml.feature; from scipy import stats\n"
        "print(stats.norm.cdf(0), altair.Chart.__name__, sqlalchemy.Table.__name__)"
    )
    assert said(code) == "0.5 Chart Table"


def test_an_expectation_that_needs_one_of_them_has_it() -> None:
    code = (
        "from kafka_ferry.verify.expectations.gx import great_expectations\n"
        "import pandas as pd; gx = great_expectations(); gxe = gx.expectations\n"
        "context = gx.get_context(mode='ephemeral')\n"
        "batch = context.data_sources.pandas_default.read_dataframe(pd.DataFrame({'a': ['x', 'y']}))\n"
        "expectation = gxe.ExpectColumnKLDivergenceToBeLessThan(column='a', threshold=0.1,\n"
        "    partition_object={'values': ['x', 'y'], 'weights': [0.5, 0.5]})\n"
        "print(batch.validate(expectation).success)"
    )
    assert said(code).splitlines()[-1] == "True"


def test_its_import_logs_nothing_where_everything_is_logged() -> None:
    code = (
        "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout)\n"
        "from kafka_ferry.verify.expectations.gx import great_expectations as gx; gx()\n"
    )
    assert said(code) == ""
