"""The pod that Spark makes for an executor on Kubernetes, by Spark's own classes; no cluster is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

import yaml
from pyspark.java_gateway import launch_gateway

DRIVER = "10.1.2.3"
# For the few seconds that it lives, to compile well takes longer than it saves.
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def executor_pod(properties: Mapping[str, str]) -> dict[str, Any]:
    """The manifest of an executor's pod.

    Args:
        properties: Spark's, of an application whose driver is at ``DRIVER``.
    """
    with mock.patch.dict(os.environ, {"SPARK_SUBMIT_OPTS": _QUICK}):
        gateway = launch_gateway()
    try:
        java = gateway.jvm
        spark, model = java.org.apache.spark, java.io.fabric8.kubernetes.client
        conf = spark.SparkConf(False).set("spark.driver.host", DRIVER).set("spark.app.name", "run")
        for name, value in properties.items():
            conf.set(name, value)
        none = _object(java.scala, "None")
        security = spark.SecurityManager(
            conf, none, _object(spark.internal.config, "package").AUTH_SECRET_FILE_EXECUTOR()
        )
        made = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder().buildFromFeatures(
            _object(spark.deploy.k8s, "KubernetesConf").createExecutorConf(
                conf, "1", "spark-run-1", none, 0
            ),
            security,
            model.KubernetesClientBuilder().build(),
            _object(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf),
        )
        pod, container = (
            yaml.safe_load(model.utils.Serialization.asYaml(part))
            for part in (made.pod().pod(), made.pod().container())
        )
        # As ``ExecutorPodsAllocator`` does before it sends the pod to the API server.
        pod["spec"].setdefault("containers", []).append(container)
        return dict(pod)
    finally:
        gateway.shutdown()
        # The JVM ends with its input.
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
