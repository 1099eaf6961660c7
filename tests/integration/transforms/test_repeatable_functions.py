"""The functions that rules may use, against the catalog of the Spark that evaluates them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from kafka_ferry.spark.session import SparkOnDemand, SparkSource, _session
from kafka_ferry.spark.transforms.query import rules_session
from kafka_ferry.spark.transforms.repeatable import REPEATABLE

# Those over several records, or that give several for one.
_NOT_OVER_ONE_RECORD = {"agg_funcs", "generator_funcs", "window_funcs", "table_funcs"}
_NOT_REPEATABLE = """
rand randn random randstr uniform uuid shuffle kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
current_date current_time current_timestamp curdate localtimestamp now
current_catalog current_database current_path current_schema current_timezone current_user session_user user version
input_file_block_length input_file_block_start input_file_name monotonically_increasing_id spark_partition_id
java_method reflect try_reflect
xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
to_xml parse_json try_parse_json schema_of_variant st_geogfromwkb st_geomfromwkb
from_avro to_avro schema_of_avro from_protobuf to_protobuf
approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_to_string_bigint
kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection theta_sketch_estimate
theta_union tuple_difference_double tuple_difference_integer tuple_difference_theta_double
tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
window session_window window_time json_tuple variant_explode variant_explode_outer
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    """Of an application whose defaults change what expressions mean."""
    own = {
        "spark.master": "local[1]",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parser.quotedRegexColumnNames": "true",
        "spark.sql.shuffle.partitions": "3",
    }
    with SparkOnDemand(partial(_session, "functions", own)) as spark:
        yield spark


def test_every_function_of_spark_is_known_to_be_repeatable_or_known_not_to_be(
    spark: SparkSource,
) -> None:
    session = spark()
    catalog = session._jsparkSession.sessionState().catalog()
    identifier = session.sparkContext._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    groups = {
        it.name: catalog.lookupFunctionInfo(identifier(it.name)).getGroup()
        for it in session.catalog.listFunctions()
        if it.name[0].isalpha()
    }

    over_one = {name for name, group in groups.items() if group not in _NOT_OVER_ONE_RECORD}

    assert over_one - REPEATABLE == {*_NOT_REPEATABLE.split()}
    assert over_one >= REPEATABLE


def test_expressions_mean_the_same_whatever_the_applications_defaults_say(
    spark: SparkSource,
) -> None:
    session = rules_session(spark())

    assert session.conf.get("spark.sql.caseSensitive") == "false"
    assert session.conf.get("spark.sql.parser.quotedRegexColumnNames") == "false"
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    assert session.conf.get("spark.sql.shuffle.partitions") == "3"
