"""Kafka's jars are those that the checksums name, or they are not used."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import checksums, ivy
from kafka_sandbox.java import jars as jars_module
from kafka_sandbox.java.jars import KAFKA, STREAMS, Jars, class_path, kafka
from kafka_sandbox.mirrormaker2 import MIRROR
from tests.support.spark.kafka_source import SOURCE, TOKENS

OLDER = ("0.11.0.3", "2.4.1", "3.3.2", "3.9.1")
PAIR = Jars("pair", (("org.test", "one", "1.0"), ("org.test", "two", "2.0")))
ONE, TWO = "org/test/one/1.0/one-1.0.jar", "org/test/two/2.0/two-2.0.jar"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository with two jars, whose checksums are known."""
    folder = tmp_path / "repository"
    for path in (ONE, TWO):
        file = folder / path
        file.parent.mkdir(parents=True)
        file.write_text(f"content of {path}")
    monkeypatch.setattr(jars_module, "SANDBOX", tmp_path / "sandbox")
    monkeypatch.setattr(checksums, "FOLDER", tmp_path)
    fetch = partial(ivy.fetch, repository=folder.as_uri())
    monkeypatch.setattr(jars_module.ivy, "fetch", fetch)
    found = {path: checksums.sha256(folder / path) for path in (ONE, TWO)}
    (tmp_path / "pair.sha256").write_text(checksums.as_text(found))
    return folder


@pytest.mark.parametrize(
    "jars",
    [KAFKA, STREAMS, MIRROR, SOURCE, TOKENS, *map(kafka, OLDER)],
    ids=lambda jars: jars.name,
)
def test_what_the_tests_and_the_demo_run_has_checksums_of_its_present_versions(jars: Jars) -> None:
    assert checksums.pinned(jars.name, jars.modules)


def test_another_version_than_the_checksums_are_of_is_left_to_ivy(repository: Path) -> None:
    assert checksums.pinned("pair", PAIR.modules).keys() == {ONE, TWO}
    assert checksums.pinned("pair", [("org.test", "one", "1.1")]) == {}
    assert checksums.pinned("unheard-of", PAIR.modules) == {}


def test_jars_are_fetched_once_and_kept(repository: Path) -> None:
    assert class_path(PAIR) == f"{PAIR.lib}/*"
    assert {jar.name: jar.read_text() for jar in PAIR.lib.iterdir()} == {
        "one-1.0.jar": f"content of {ONE}",
        "two-2.0.jar": f"content of {TWO}",
    }

    (repository / ONE).unlink()

    assert class_path(PAIR) == f"{PAIR.lib}/*"


def test_a_jar_with_another_checksum_is_named_and_not_used(repository: Path) -> None:
    (repository / TWO).write_text("something else")

    with pytest.raises(SandboxError, match=rf"^{TWO} is not the file"):
        class_path(PAIR)
    assert not PAIR.resolved.exists()

    (repository / TWO).write_text(f"content of {TWO}")
    class_path(PAIR)
    assert len(list(PAIR.lib.iterdir())) == 2


def test_a_jar_that_is_not_there_is_an_error_that_names_it(
    repository: Path, tmp_path: Path
) -> None:
    missing = "org/test/none/1.0/none-1.0.jar"

    with pytest.raises(SandboxError, match=rf"^{missing} cannot be fetched"):
        ivy.fetch(jars_module.java(), {missing: tmp_path / "none.jar"})


def test_a_report_of_ivy_tells_where_the_repository_has_each_jar(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<ivy-report><dependencies>
  <module organisation="org.test" name="kept">
    <revision name="2">
      <artifacts>
        <artifact name="kept" type="bundle"><origin-location location="x:/a/kept-2.jar"/></artifact>
        <artifact name="kept" type="source"><origin-location location="x:/a/kept-2-sources.jar"/></artifact>
      </artifacts>
    </revision>
    <revision name="1" evicted="latest"/>
  </module>
</dependencies></ivy-report>"""
    )

    assert ivy.repository_paths(report) == ["org/test/kept/2/kept-2.jar"]
