"""What ``deploy/kubernetes`` holds is valid by Kubernetes' and Spark's own definitions, and fits together."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import javaproperties
import kubernetes_validate
import pyspark
import pytest
import yaml
from typer.testing import CliRunner

from kafka_ferry.cli import app
from kafka_ferry.config import load_flow
from kafka_ferry.config.client.config_providers import ALLOWED
from tests import PROJECT

KUBERNETES = PROJECT / "deploy" / "kubernetes"
VALUES: dict[str, Any] = yaml.safe_load((KUBERNETES / "airflow-values.yaml").read_text())
# Kubernetes supports a release for 14 months: the newest one, and one of about that age.
RELEASES = ("1.34", "1.37")
MIB = 1024**2


def rendered() -> list[dict[str, Any]]:
    kubectl = Path(sysconfig.get_path("scripts")) / "kubectl"
    command = [kubectl if kubectl.exists() else "kubectl", "kustomize", KUBERNETES / "cronjob"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return list(yaml.safe_load_all(done.stdout))


MANIFESTS = [
    *rendered(),
    *yaml.safe_load_all((KUBERNETES / "spark-access.yaml").read_text()),
    *yaml.safe_load_all((KUBERNETES / "spark-network.yaml").read_text()),
]
POLICIES = {it["metadata"]["name"]: it["spec"] for it in MANIFESTS if it["kind"] == "NetworkPolicy"}
BY_KIND = {manifest["kind"]: manifest for manifest in MANIFESTS}
POD = BY_KIND["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
(FERRY,) = POD["containers"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda it: it["kind"])
def test_a_manifest_is_valid_by_the_schema_of_its_kind(
    manifest: dict[str, Any], release: str
) -> None:
    kubernetes_validate.validate(manifest, release, strict=True)


@pytest.mark.parametrize("release", RELEASES)
def test_a_manifest_with_a_key_that_its_kind_lacks_is_refused(release: str) -> None:
    wrong = {**BY_KIND["CronJob"], "spec": {**BY_KIND["CronJob"]["spec"], "concurrency": "Forbid"}}
    with pytest.raises(kubernetes_validate.ValidationError, match="concurrency"):
        kubernetes_validate.validate(wrong, release, strict=True)


def test_every_volume_is_mounted_and_comes_from_what_is_rendered_or_from_the_users_secret() -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert {mount["name"] for mount in FERRY["volumeMounts"]} == set(volumes)
    assert volumes["flow"]["configMap"]["name"] == BY_KIND["ConfigMap"]["metadata"]["name"]
    claim = volumes["state"]["persistentVolumeClaim"]["claimName"]
    assert claim == BY_KIND["PersistentVolumeClaim"]["metadata"]["name"]
    assert "Secret" not in BY_KIND


def test_the_job_may_change_only_its_volumes_and_does_not_overlap() -> None:
    assert BY_KIND["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert FERRY["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {it["mountPath"] for it in FERRY["volumeMounts"] if not it.get("readOnly")}
    (home,) = (it["value"] for it in FERRY["env"] if it["name"] == "FERRY_HOME")
    assert writable == {home, "/tmp"}


def test_the_jobs_flow_is_valid_and_its_references_lead_to_the_mounted_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = next(it for it in FERRY["volumeMounts"] if it["name"] == "secrets")["mountPath"]
    config = next(it for it in FERRY["volumeMounts"] if it["name"] == "flow")["mountPath"]
    (name,) = BY_KIND["ConfigMap"]["data"]
    assert FERRY["command"] == ["ferry", "run", "--config", f"{config}/{name}"]
    (tmp_path / "backup.properties").write_text("password = of-backup\n")
    for file in ("primary-password", "primary-ca.pem", "backup-ca.pem"):
        mark = "-----BEGIN CERTIFICATE-----\n" if file.endswith(".pem") else ""
        (tmp_path / file).write_text(f"{mark}of-{file}")
    # Here the Secret is in this folder.
    text = BY_KIND["ConfigMap"]["data"][name].replace(secrets, str(tmp_path))
    (tmp_path / name).write_text(text)
    (allowed,) = (it["value"] for it in FERRY["env"] if it["name"] == ALLOWED)
    monkeypatch.setenv(ALLOWED, allowed.replace(secrets, str(tmp_path)))

    assert CliRunner().invoke(app, ["check", "--config", str(tmp_path / name)]).exit_code == 0
    flow = load_flow(tmp_path / name)
    source, target = (it.client_properties("consumer") for it in (flow.source, flow.target))
    assert 'password="of-primary-password";' in source["sasl.jaas.config"]
    assert 'password="of-backup";' in target["sasl.jaas.config"]


def test_the_job_reaches_brokers_and_names_and_nobody_reaches_it() -> None:
    policy = POLICIES["kafka-ferry"]
    labels = BY_KIND["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    open_to = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    (flow,) = BY_KIND["ConfigMap"]["data"].values()
    brokers = {int(port) for port in re.findall(r"bootstrap.servers: \S+:(\d+)", flow)}
    assert open_to == {53} | brokers


def test_only_executors_reach_the_drivers_ports() -> None:
    driver, executors = POLICIES["kafka-ferry-driver"], POLICIES["kafka-ferry-executors"]
    spark, logs = driver["ingress"]
    (source,) = spark["from"]
    assert source["podSelector"] == executors["podSelector"]
    settings = spark_properties()
    ports = (settings["spark.driver.port"], settings["spark.driver.blockManager.port"])
    assert sorted(it["port"] for it in spark["ports"]) == sorted(map(int, ports))
    assert [it["port"] for it in logs["ports"]] == [8793]
    selectors = [it["podSelector"] for it in executors["ingress"][0]["from"]]
    assert selectors == [executors["podSelector"], driver["podSelector"]]


def spark_properties() -> dict[str, str]:
    return javaproperties.loads((KUBERNETES / "spark.properties").read_text())


def test_every_spark_property_is_one_that_this_spark_knows() -> None:
    names = set(spark_properties())
    known: set[str] = set()
    for part in ("core", "kubernetes"):
        (jar,) = (Path(pyspark.__file__).parent / "jars").glob(f"spark-{part}_*.jar")
        with zipfile.ZipFile(jar) as classes:
            for entry in classes.namelist():
                if "/internal/config/package" in entry or "/k8s/Config" in entry:
                    content = classes.read(entry)
                    known |= {it for it in names if it.encode() in content}
    assert names - known == set()


def mebibytes(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([mMgG])i?", text).groups()
    return int(number) * {"m": 1, "g": 1024}[unit.lower()]


def formula(brokers: int = 4, batch: float = 1, fetch: float = 8) -> float:
    """A copying task's memory by docs/sizing.md, beyond its Python process, in MiB."""
    return 6 * fetch + (5 * brokers + 4) * (4 + batch) + 32


def test_memory_is_what_the_page_on_sizing_computes() -> None:
    task = 160 + formula()
    assert task == pytest.approx(360)
    executor = spark_properties()
    assert int(executor["spark.executor.cores"]) * task <= mebibytes(
        executor["spark.executor.memoryOverhead"]
    )
    limits = FERRY["resources"]["limits"]
    assert 1000 + int(limits["cpu"]) * task <= mebibytes(limits["memory"])
    slots, tasks = 2, 2
    scheduler = VALUES["scheduler"]["resources"]["limits"]["memory"]
    assert 500 + slots * (1000 + tasks * task) <= mebibytes(scheduler)


def test_the_charts_values_name_what_they_mount() -> None:
    volumes = {it["name"] for it in VALUES["volumes"]}
    assert {it["name"] for it in VALUES["volumeMounts"]} == volumes
    # Only the tasks' pod has the secrets.
    assert {it["name"] for it in VALUES["scheduler"]["extraVolumes"]} == {"secrets"}
    flows = next(it for it in VALUES["volumeMounts"] if it["name"] == "flows")["mountPath"]
    assert {"name": "FERRY_CONFIGS", "value": flows} in VALUES["env"]


def test_the_chart_gets_the_version_of_airflow_that_is_tested() -> None:
    required = (PROJECT / "requirements.txt").read_text()
    assert f"apache-airflow=={VALUES['airflowVersion']}\n" in required
