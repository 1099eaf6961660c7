"""A first flow file, and what a file is checked for, without any broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from kafka_ferry.cli import main
from kafka_ferry.config import load_flow

Ferry = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ferry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Ferry:
    """Runs the command line in an empty folder; its status and what it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["ferry", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_a_first_file_is_a_flow_that_is_valid(ferry: Ferry) -> None:
    status, said, _ = ferry("init", "a:1,b:2", "c:3", "--topics", "orders, pay.*")
    assert (status, said.splitlines()[-1]) == (0, "Next: ferry check, then ferry plan")
    flow = load_flow(Path("flow.yaml").absolute())
    assert flow.name == "primary->backup"
    assert list(flow.topics) == ["orders", "pay.*"]
    assert ferry("check") == (
        0,
        "flow.yaml: primary->backup is valid; it copies orders, pay.*\n",
        "",
    )


def test_its_comments_are_options_that_are_valid(ferry: Ferry) -> None:
    ferry("init", "a:1", "b:2")
    file = Path("flow.yaml")
    file.write_text(file.read_text().replace("# config.providers", "config.providers"))
    assert ferry("check")[0] == 0


def test_a_store_that_is_not_of_its_type_is_refused_without_a_broker(ferry: Ferry) -> None:
    ferry("init", "a:1", "b:2")
    file, store = Path("flow.yaml"), Path("ca.pem").absolute()
    store.write_text("-----BEGIN CERTIFICATE-----\n")
    tls = f"  security.protocol: SSL\n  ssl.truststore.location: {store}\n\ntarget:"
    file.write_text(file.read_text().replace("\ntarget:", tls))
    status, _, said = ferry("check")
    assert status == 9
    assert f"source.ssl.truststore.type: is not given, which means JKS, but {store} is PEM" in said


def test_rules_are_not_looked_at_without_java(
    ferry: Ferry, monkeypatch: pytest.MonkeyPatch
) -> None:
    ferry("init", "a:1", "b:2")
    file = Path("flow.yaml")
    file.write_text(file.read_text() + 'transform: [{topics: o.*, where: "= ="}]\n')
    monkeypatch.setenv("JAVA_HOME", "/no/such")
    status, _, said = ferry("check")
    assert status == 0
    assert "flow.yaml: transform: was not looked at. " in said


def test_its_comment_has_the_alias_that_was_given(ferry: Ferry) -> None:
    ferry("init", "a:1", "b:2", "--source-alias", "eu")
    assert "orders of eu becomes eu.orders." in Path("flow.yaml").read_text()


def test_a_file_that_is_not_there_is_asked_for(ferry: Ferry) -> None:
    for command in ("check", "plan", "certificate list", "repair"):
        status, _, said = ferry(*command.split())
        assert status == 9
        assert "flow.yaml: file: is not in this folder. Name another file with --config" in said


def test_programs_get_json(ferry: Ferry) -> None:
    _, said, _ = ferry("init", "a:1", "b:2", "--json")
    assert json.loads(said) == {"config": "flow.yaml", "flow": "primary->backup"}
    _, said, _ = ferry("check", "--json")
    assert json.loads(said) == [
        {"config": "flow.yaml", "flow": "primary->backup", "topics": [".*"], "notes": []}
    ]


def test_two_files_that_write_the_same_names_are_told(ferry: Ferry) -> None:
    kept = "\nreplication.policy.class: IdentityReplicationPolicy\n"
    for source, topics in (("us", "orders"), ("eu", "orders,clicks"), ("asia", ".*")):
        name = f"{source}.yaml"
        ferry(
            "init",
            f"{source}:1",
            "c:2",
            "--source-alias",
            source,
            "--topics",
            topics,
            "--config",
            name,
        )
        Path(name).write_text(Path(name).read_text() + kept)
    status, valid, said = ferry("check", "--config", "us.yaml", "--config", "eu.yaml")
    assert status == 0
    assert "eu.yaml: us->backup and eu->backup both write orders: rename one" in said
    # As a shell expands *.yaml.
    for files in (("--config", "us.yaml", "eu.yaml"), ("us.yaml", "eu.yaml")):
        assert ferry("check", *files) == (status, valid, said)
    assert ferry("check", "us.yaml", "./us.yaml")[0] == 0
    Path("copy.yaml").write_text(Path("us.yaml").read_text())
    status, valid, said = ferry("check", "us.yaml", "copy.yaml")
    assert (status, valid) == (9, "")
    assert "copy.yaml: file: holds us->backup, as us.yaml does: their runs would refuse" in said


def test_a_link_to_no_file_is_not_followed(ferry: Ferry) -> None:
    Path("flow.yaml").symlink_to("elsewhere")
    status, _, said = ferry("init", "a:1", "b:2")
    assert status == 9
    assert "flow.yaml: file: exists already." in said
    assert not Path("elsewhere").exists()


def test_a_file_that_exists_stays_as_it_is(ferry: Ferry) -> None:
    Path("flow.yaml").write_text("mine")
    status, _, said = ferry("init", "a:1", "b:2")
    assert status == 9
    assert "flow.yaml: file: exists already. Name another one with --config." in said
    assert Path("flow.yaml").read_text() == "mine"


def test_a_file_that_would_not_be_valid_is_not_left(ferry: Ferry) -> None:
    status, _, said = ferry("init", "nowhere", "b:2")
    assert status == 9
    assert "source.bootstrap.servers" in said
    assert not Path("flow.yaml").exists()


def test_what_is_wrong_with_a_file_is_named(ferry: Ferry) -> None:
    Path("flow.yaml").write_text("source: {alias: a, bootstrap.servers: 'a:1'}\ntopic: [x]\n")
    status, _, said = ferry("check", "--config", "flow.yaml")
    assert status == 9
    assert "flow.yaml" in said
    assert "topics" in said


@pytest.mark.parametrize("asked", [(), ("-h",), ("--help",)])
def test_help_lists_the_commands(ferry: Ferry, asked: tuple[str, ...]) -> None:
    status, said, wrong = ferry(*asked)
    assert "mirror-maker" in said + wrong
    assert "Traceback" not in wrong
    assert status in (0, 9)


def test_the_version_is_that_of_the_package(ferry: Ferry) -> None:
    assert ferry("--version") == (0, f"ferry {version('kafka-ferry')}\n", "")


def test_a_file_that_is_not_valid_hides_no_other(ferry: Ferry) -> None:
    for name in ("us", "eu", "asia"):
        ferry("init", f"{name}:1", "c:2", "--source-alias", name, "--config", f"{name}.yaml")
    for name in ("asia", "eu"):
        Path(f"{name}.yaml").write_text(Path(f"{name}.yaml").read_text() + "\nno.such.key: 1\n")

    status, valid, said = ferry("check", "asia.yaml", "eu.yaml", "us.yaml")

    assert (status, valid) == (9, "us.yaml: us->backup is valid; it copies .*\n")
    assert said.count("no.such.key") == 2
    assert said.index("asia.yaml") < said.index("eu.yaml")
