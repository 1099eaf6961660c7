"""Which options of MirrorMaker 1 and of Kafka 0.7's mirror are taken, and what is said of the others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kafka_ferry.cli import main
from kafka_ferry.cli.commands.mirror_maker import with_values
from kafka_ferry.cli.mm1_options import IN_VAIN, REFUSED
from tests import PROJECT

# kafka.tools.MirrorMaker of 0.7.2, 0.8.1, 0.8.2, 0.9 and 3.9
OF_ALL_RELEASES = (
    *(
        "consumer.config",
        "producer.config",
        "num.producers",
        "num.streams",
        "whitelist",
        "blacklist",
    ),
    *("help", "queue.size", "new.producer", "new.consumer", "offset.commit.interval.ms"),
    *("consumer.rebalance.listener", "rebalance.listener.args", "message.handler"),
    *("message.handler.args", "abort.on.send.failure", "include"),
    *("abortOnSendFail", "abort.on.send.fail"),
)


class Said:
    """What the command line said before it ended, and with which status."""

    def __init__(self, status: object, out: str, errors: str) -> None:
        self.status, self.out = status, out
        # Boxes and lines are broken at the terminal's width.
        self.errors = " ".join(errors.replace("│", " ").split())


class MirrorMaker:
    """Runs ``ferry mirror-maker`` in this process, with files that name no real cluster."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for name in ("source", "target"):
            (folder / name).write_text(f"bootstrap.servers={name}:9092\n")
        self.files = [
            f"--consumer.config={folder / 'source'}",
            f"--producer.config={folder / 'target'}",
        ]

    def __call__(self, *arguments: str, files: bool = True) -> Said:
        command = ["ferry", "mirror-maker", *(self.files if files else ()), *arguments]
        self._monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        return Said(ended.value.code, *self._capsys.readouterr())


@pytest.fixture
def mirror_maker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> MirrorMaker:
    return MirrorMaker(tmp_path, monkeypatch, capsys)


def test_the_help_has_every_option_of_every_release_whole(mirror_maker: MirrorMaker) -> None:
    said = mirror_maker("--help", files=False)
    assert said.status == 0
    for option in OF_ALL_RELEASES:
        assert f"--{option}" in said.out, option


@pytest.mark.parametrize("option", REFUSED)
def test_code_of_ones_own_is_refused_with_the_reason(
    mirror_maker: MirrorMaker, option: str
) -> None:
    said = mirror_maker("--whitelist=.*", option, "com.example.Mine")
    assert said.status == 9
    assert f"{option} cannot be used here: {REFUSED[option]}" in said.errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--abort.on.send.failure", "false"), "on.rejected.record = dead-letter"),
        (("--abort.on.send.failure=FALSE",), "loses it"),
        (("--abort.on.send.failure", "maybe"), "must be true or false"),
        (("--abortOnSendFail", "false"), "on.rejected.record = dead-letter"),
        (("--abort.on.send.fail=false",), "on.rejected.record = dead-letter"),
        (("--num.streams", "0"), "--num.streams"),
        (("--num.streams", "many"), "--num.streams"),
        (("--offset.commit.interval.ms", "900000"), "--offset.commit.interval.ms"),
        (("--blacklist", "x"), "--whitelist and --blacklist are given"),
        (("--write-config", "flows.yaml"), "must end in .properties"),
        (("--num.stream", "3"), "--num.streams"),
        (("--include=payments",), "--whitelist or --include is given twice"),
        (("--whitelist", "payments"), "--whitelist or --include is given twice"),
        (("--num.streams=1", "--num.streams=2"), "--num.streams is given twice"),
        (("--abortOnSendFail", "--abort.on.send.failure"), "is given twice"),
    ],
)
def test_a_wrong_option_is_named_and_no_cluster_is_asked(
    mirror_maker: MirrorMaker, arguments: tuple[str, ...], said: str
) -> None:
    result = mirror_maker("--whitelist", "orders", *arguments)
    assert result.status == 9
    assert said in result.errors


def test_topics_have_to_be_told(mirror_maker: MirrorMaker) -> None:
    said = mirror_maker()
    assert said.status == 9
    assert "Give exactly one of --whitelist, --blacklist" in said.errors


@pytest.mark.parametrize("left_out", ["consumer.config", "producer.config"])
def test_both_kinds_of_files_are_needed(mirror_maker: MirrorMaker, left_out: str) -> None:
    others = [file for file in mirror_maker.files if left_out not in file]
    said = mirror_maker("--whitelist=.*", *others, files=False)
    assert said.status == 9
    assert f"--{left_out}" in said.errors


def test_a_file_that_is_not_there_is_named(mirror_maker: MirrorMaker, tmp_path: Path) -> None:
    said = mirror_maker("--whitelist=.*", "--consumer.config", str(tmp_path / "nowhere"))
    assert said.status == 9
    assert f"{tmp_path / 'nowhere'}: file: cannot be read: No such file" in said.errors


@pytest.mark.parametrize(
    ("given", "completed"),
    [
        (["--abort.on.send.failure"], ["--abort.on.send.failure", "true"]),
        (
            ["--abort.on.send.failure", "--whitelist", "a"],
            ["--abort.on.send.failure", "true", "--whitelist", "a"],
        ),
        (["--abort.on.send.failure", "false"], ["--abort.on.send.failure", "false"]),
        (["--abort.on.send.failure=true"], ["--abort.on.send.failure=true"]),
        (
            ["--abortOnSendFail", "--num.streams", "2"],
            ["--abortOnSendFail", "true", "--num.streams", "2"],
        ),
        (["--abort.on.send.fail"], ["--abort.on.send.fail", "true"]),
        (["plan", "--config", "a"], ["plan", "--config", "a"]),
    ],
)
def test_abort_on_send_failure_needs_no_value(given: list[str], completed: list[str]) -> None:
    assert list(with_values(given)) == completed


def test_every_option_without_effect_has_a_reason() -> None:
    assert IN_VAIN.keys() == {"--queue.size", "--new.consumer", "--new.producer"}
    assert all(IN_VAIN.values())


def test_every_option_is_in_the_docs(mirror_maker: MirrorMaker) -> None:
    docs = (PROJECT / "docs" / "mirrormaker1.md").read_text()
    options = re.findall(r"--[\w.-]+", mirror_maker("--help", files=False).out)
    assert len(set(options)) > len(OF_ALL_RELEASES)
    for option in options:
        assert re.search(rf"`{re.escape(option)}[` ]", docs), option
