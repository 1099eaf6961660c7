"""The pods that Spark makes of ``deploy/kubernetes/spark.properties`` are valid and as large as the docs say."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from tests.support.spark.executor_pod import DRIVER, executor_pod

from .test_kubernetes import BY_KIND, RELEASES, mebibytes, spark_properties


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    return executor_pod(spark_properties())


@pytest.mark.parametrize("release", RELEASES)
def test_an_executors_pod_is_valid_by_kubernetes_schema(pod: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(pod, release, strict=True)


def test_it_has_the_image_memory_and_processors_of_the_settings(pod: dict[str, Any]) -> None:
    settings = spark_properties()
    (executor,) = pod["spec"]["containers"]
    assert executor["image"] == settings["spark.kubernetes.container.image"]
    parts = ("spark.executor.memory", "spark.executor.memoryOverhead")
    memory = sum(mebibytes(settings[part]) for part in parts)
    assert memory == 1232
    for kind in ("requests", "limits"):
        assert mebibytes(executor["resources"][kind]["memory"]) == memory
    assert executor["resources"]["requests"]["cpu"] == settings["spark.executor.cores"]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["name"].startswith("kafka-ferry-")


def test_it_connects_to_the_drivers_port(pod: dict[str, Any]) -> None:
    (executor,) = pod["spec"]["containers"]
    (url,) = (it["value"] for it in executor["env"] if it["name"] == "SPARK_DRIVER_URL")
    assert url.endswith(f"@{DRIVER}:{spark_properties()['spark.driver.port']}")


def test_the_drivers_account_may_make_it_in_its_namespace() -> None:
    assert (
        BY_KIND["Role"]["metadata"]["namespace"] == spark_properties()["spark.kubernetes.namespace"]
    )
    (rule,) = BY_KIND["Role"]["rules"]
    assert "pods" in rule["resources"]
    assert {"create", "watch", "delete"} <= set(rule["verbs"])
