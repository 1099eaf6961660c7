"""What keeps strangers out of a Spark application, by where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_ferry.errors import ConfigError
from kafka_ferry.spark.properties import is_local, protection
from kafka_ferry.spark.security.private_sockets import driver_folder, is_private

LOCAL: Mapping[str, str] = {
    "spark.authenticate": "true",
    "spark.ui.killEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.unix.domain.socket.dir": driver_folder(),
}
ELSEWHERE: Mapping[str, str] = {
    "spark.authenticate": "true",
    "spark.ui.killEnabled": "false",
    "spark.network.crypto.enabled": "true",
}


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        ("local", LOCAL),
        ("local[*]", LOCAL),
        ("local[2,4]", LOCAL),
        ("local-cluster[2,1,1024]", ELSEWHERE),
        ("yarn", ELSEWHERE),
        ("k8s://https://kubernetes.default.svc:443", ELSEWHERE),
    ],
)
def test_every_master_asks_for_a_secret(master: str, wanted: Mapping[str, str]) -> None:
    assert protection({"spark.master": master}) == wanted
    assert is_local(master) is (wanted is LOCAL)


def test_what_an_application_says_itself_stays() -> None:
    own = {"spark.ui.enabled": "true", "spark.driver.host": "10.0.0.1"}
    assert not own.keys() & protection({"spark.master": "local[*]", **own}).keys()


def test_a_standalone_cluster_s_secret_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("w0rd\n")
    told = {
        "spark.master": "spark://host:7077",
        "spark.authenticate.secret.file": str(tmp_path / "secret"),
    }
    assert protection(told) == {**ELSEWHERE, "spark.authenticate.secret": "w0rd"}


@pytest.mark.parametrize("more", [{}, {"spark.authenticate": "true"}])
def test_without_one_nothing_is_sent_there(more: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"spark\.authenticate\.secret\.file; or allow it"):
        protection({"spark.master": "spark://host:7077", **more})


def test_who_does_without_a_secret_says_so() -> None:
    told = {"spark.master": "spark://host:7077", "spark.authenticate": "false"}
    assert "spark.authenticate.secret" not in protection(told)


def test_sockets_are_in_a_folder_that_nobody_else_enters(tmp_path: Path) -> None:
    assert is_private(Path(driver_folder()))
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(driver_folder())
    assert not is_private(shared)
    assert not is_private(tmp_path / "link")
