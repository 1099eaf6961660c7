"""The image of the Dockerfile: built on a stand-in for Airflow's image, and run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.airflow.image import Image, locked_versions, why_not
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import assert_same, write_flow
from tests.support.runs.pair import Pair

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
CRONJOB = PROJECT / "deploy" / "kubernetes" / "cronjob" / "cronjob.yaml"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    image = Image(tmp_path_factory.mktemp("image"))
    try:
        image.build()
        yield image
    finally:
        image.delete()


def test_the_images_airflow_keeps_its_packages_and_gets_those_that_are_tested(image: Image) -> None:
    before, after = (installed(image, it) for it in (image.container_of("stand-in"), ""))
    assert before.items() <= after.items()
    assert after.pop("kafka-ferry") == "0.1.0"
    locked = [Requirement(line) for line in locked_versions()]
    tested = {
        it.name: str(it.specifier).removeprefix("==")
        for it in locked
        if it.marker is None or it.marker.evaluate()
    }
    added = after.keys() - before.keys()
    assert {"pyspark", "confluent-kafka"} <= added
    assert {name: after[name] for name in added} == {name: tested[name] for name in added}


def installed(image: Image, container: str) -> dict[str, str]:
    """The version of each package of a container."""
    listed = json.loads(image.run("pip", "list", "--format", "json", container=container))
    return {canonicalize_name(it["name"]): it["version"] for it in listed}


def test_the_image_runs_as_airflows_user_and_has_what_drivers_need(image: Image) -> None:
    assert image.run("id", "-u").strip() == "50000"
    assert image.run("ferry", "--version") == "ferry 0.1.0\n"
    found = image.run(
        "python",
        "-c",
        "from kafka_ferry.spark.class_archive import found_archive; print(found_archive())",
    )
    assert found.strip().endswith(".jsa")
    assert "kafka_ferry.zip" in image.run("ls", "dist")


def test_its_user_can_change_no_code(image: Image) -> None:
    code = ("dags", "include", "plugins", "dist")
    where = [f"/opt/airflow/{it}" for it in code]
    added = "import kafka_ferry as it, pyspark as spark; print(it.__path__[0], spark.__path__[0])"
    packages = image.run("python", "-c", added).split()
    assert image.run("find", *where, *packages, "-writable", "-not", "-type", "l") == ""
    for folder in (*where, *packages):
        # What a command has said to the end is sometimes lost on its way out of the container.
        with pytest.raises(RuntimeError, match="exited with status 1"):
            image.run("mv", folder, f"{folder}-of-a-stranger")
    assert {*image.run("ls", "-d", *where, *packages).split()} == {*where, *packages}
    image.run("touch", "/opt/airflow/airflow.cfg", "/opt/airflow/.ferry/a-plan")


def test_airflow_in_the_image_has_page_and_provider_and_runs_a_flows_dag(
    pair: Pair, image: Image
) -> None:
    topic = filled(pair.primary, pair.unique("orders"))
    write_flow(pair.folder, pair.primary, pair.backup, [topic], state_dir="/opt/airflow/.ferry")
    pair.folder.chmod(0o755)
    image.run("airflow", "db", "migrate")
    run_airflow(image, pair.folder, "dags", "reserialize")

    assert listed(image, pair.folder, "dags", "list-import-errors") == []
    dags = {it["dag_id"] for it in listed(image, pair.folder, "dags", "list")}
    flow = f"{pair.folder.name}_to_backup"
    assert {f"{kind}_{flow}" for kind in ("mirror", "failover", "failback")} <= dags
    providers = {it["package_name"] for it in listed(image, pair.folder, "providers", "list")}
    # The last two have the types of the connections that flows name.
    airflows = (f"apache-airflow-providers-apache-{name}" for name in ("kafka", "spark"))
    assert {"kafka-ferry", *airflows} <= providers
    assert "kafka_ferry" in {it["name"] for it in listed(image, pair.folder, "plugins")}

    run_airflow(image, pair.folder, "dags", "test", f"mirror_{flow}")
    assert_same(pair.primary, topic, pair.backup, f"{pair.folder.name}.{topic}")


def run_airflow(image: Image, flows: Path, *command: str) -> str:
    """A command of Airflow's in the image, which finds flows in a folder of this machine."""
    where = {"FERRY_CONFIGS": "/flows", "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "200"}
    return image.run("airflow", *command, environment=where, volumes={flows: "/flows"})


def listed(image: Image, flows: Path, *command: str) -> list[dict[str, str]]:
    """What a command of Airflow's lists: its last line, after those of its log."""
    printed = run_airflow(image, flows, *command, "--output", "json")
    return list(json.loads(printed.splitlines()[-1]))


def filled(cluster: KafkaCluster, topic: str) -> str:
    """A topic with a thousand records."""
    create_topic(cluster.bootstrap, topic, partitions=2)
    produce(cluster.bootstrap, topic, [Record(value=b"%d" % number) for number in range(1_000)])
    return topic


def test_the_cronjobs_command_copies_and_proves_in_the_image(
    pair: Pair, image: Image, tmp_path: Path
) -> None:
    topic = filled(pair.primary, pair.unique("orders"))
    write_flow(pair.folder, pair.primary, pair.backup, [topic])
    job = yaml.safe_load(CRONJOB.read_text())["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (ferry,) = job["containers"]
    environment = {it["name"]: it["value"] for it in ferry["env"]}
    home = tmp_path / "home"
    for place in (pair.folder, home):
        place.mkdir(exist_ok=True)
        place.chmod(0o777)

    said = image.run(
        *ferry["command"],
        environment=environment,
        volumes={pair.folder: "/etc/kafka-ferry", home: environment["FERRY_HOME"]},
    )

    assert "verified" in said
    assert_same(pair.primary, topic, pair.backup, f"{pair.folder.name}.{topic}")
