"""What Airflow finds through the package's entry points is there, and is what Airflow asks for."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import EntryPoint
from importlib.resources import files

import jsonschema
import pytest
from airflow.plugins_manager import is_valid_plugin

from kafka_ferry_airflow.provider import get_provider_info
from tests import PROJECT

PACKAGE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
MODULES = [
    module
    for kind in ("operators", "bundles")
    for entry in get_provider_info()[kind]
    for module in entry["python-modules"]
]


def entry_point(group: str) -> EntryPoint:
    ((name, value),) = PACKAGE["entry-points"][group].items()
    return EntryPoint(name, value, group)


def test_the_provider_info_is_valid_by_airflows_own_schema() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    info = entry_point("apache_airflow_provider").load()()

    jsonschema.validate(info, schema)
    # Airflow refuses a provider whose package has another name.
    assert info["package-name"] == PACKAGE["name"]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_the_provider_info_names_exists(module: str) -> None:
    assert EntryPoint("", module, "").load().__name__ == module


def test_the_plugins_entry_point_names_a_plugin_that_airflow_accepts() -> None:
    plugin = entry_point("airflow.plugins").load()

    assert is_valid_plugin(plugin)
    assert [app["name"] for app in plugin.react_apps] == ["Mirrors"]
    assert [link.name for link in plugin.global_operator_extra_links] == [
        "Mirror",
        "Report",
        "Data Docs",
        "Spark",
    ]


def test_spark_packages_that_fill_one_folder_are_of_one_version_in_the_extra() -> None:
    pins = [it for it in PACKAGE["optional-dependencies"]["airflow"] if it.startswith("pyspark")]
    assert {pin.partition("==")[2] for pin in pins} == {pins[0].partition("==")[2]}
    assert len(pins) == 2
    required = (PROJECT / "requirements.txt").read_text().splitlines()
    assert set(pins) <= set(required)
