"""What the command line says of copies with preserved offsets, and which of them it gives up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from kafka_ferry.cli import app
from kafka_ferry.cli.commands.proof.repair_copies import Doubts, show_states
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.plan.offsets.log_check import CopyState, PartitionState

COPIES = (
    CopyState(
        *("orders", "primary.orders", "an id"),
        partitions=(
            PartitionState(0, 30, 10, 36, uncommitted=6),
            PartitionState(1, 30, 10, 31, offset=30, problem="another producer [8] has written."),
            PartitionState(2, 30),
        ),
    ),
    CopyState("payments", "primary.payments", problem="it was deleted on the target."),
)


def test_copies_are_a_table_and_what_is_wrong_with_them_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_states(COPIES)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "REMOTE TOPIC PARTITION POSITION LOG STATE",
        "primary.orders 0 30 10-36 6 uncommitted",
        "primary.orders 1 30 10-31 DAMAGED",
        "primary.orders 2 30 - no leader",
        "primary.payments - - - DAMAGED",
        "DAMAGED primary.orders-1 at offset 30: another producer [8] has written.",
        "DAMAGED primary.payments: it was deleted on the target.",
    ]


def test_a_copy_of_which_the_newest_verification_failed_is_not_called_ok(
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = CopyState("a", "eu.a", "an id", partitions=(PartitionState(0, 3, 0, 3),))
    copy = replace(copy, partitions=(*copy.partitions, PartitionState(1, 3, 0, 3)))
    show_states((copy,), Doubts(unproved={TopicPartition("eu.a", 1)}, failed="It failed."))
    show_states((), Doubts(unproved={TopicPartition("eu.b", 1)}, failed="It failed."))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    failed = "It failed. --findings shows all of it, and what to do."
    assert lines == [
        failed,
        "REMOTE TOPIC PARTITION POSITION LOG STATE",
        "eu.a 0 3 0-3 ok",
        "eu.a 1 3 0-3 NOT PROVED",
        failed,
        "No remote topic has preserved offsets, and the next run refuses none.",
    ]


def test_what_the_next_run_refuses_is_refused_whatever_else_is_said_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = (PartitionState(0, 3, 0, 5, uncommitted=2), PartitionState(1, 3, 0, 3))
    copies = [CopyState(name, f"eu.{name}", "an id", partitions=parts) for name in "ab"]
    refusals = (Refusal("a", "it is cut.", "", partition=0), Refusal("b", "it is gone.", ""))
    show_states(copies, Doubts(refusals))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:5] == [
        "eu.a 0 3 0-5 refused",
        "eu.a 1 3 0-3 ok",
        "eu.b 0 3 0-5 refused",
        "eu.b 1 3 0-3 refused",
    ]


class Repair:
    """A repair that finds ``COPIES``, the second of them gone from the source."""

    given_up: ClassVar[list[str]] = []
    refused: ClassVar[dict[str, Exception]] = {}

    def __init__(self, flow: object) -> None:
        del flow

    def look(self, named: list[str]) -> list[CopyState]:
        copies = (COPIES[0], replace(COPIES[1], on_source=False))
        return [copy for copy in copies if not named or copy.remote_topic in named]

    def give_up(self, states: list[CopyState]) -> list[CopyState]:
        self.given_up.extend(state.remote_topic for state in states)
        return [replace(state, given_up=True) for state in states]


@pytest.mark.parametrize(
    ("arguments", "given_up", "status"),
    [
        ([], [], 2),
        (["--yes"], ["primary.orders"], 2),
        (["--topic", "primary.orders"], [], 2),
        (["--topic", "primary.orders", "--yes"], ["primary.orders"], 0),
        (
            ["--topic", "primary.payments", "--topic", "primary.orders", "--yes"],
            ["primary.orders", "primary.payments"],
            0,
        ),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["table", "json"])
def test_nothing_is_given_up_without_yes_or_without_its_name_where_it_could_not_be_copied_again(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    given_up: list[str],
    status: int,
    as_json: bool,
) -> None:
    monkeypatch.setattr("kafka_ferry.runs.Repair", Repair)
    here = "kafka_ferry.cli.commands.proof"
    monkeypatch.setattr(f"{here}.repair.one_flow", lambda *_: None)
    monkeypatch.setattr(f"{here}.repair_copies._other_refusals", lambda *_: [])
    newest = "kafka_ferry.runs.state.newest_verification.newest_verification"
    monkeypatch.setattr(newest, lambda _: None)
    monkeypatch.setattr(Repair, "given_up", [])
    arguments = ["repair", "--config", "flow.yaml", *arguments, *(["--json"] if as_json else [])]

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == status
    assert Repair.given_up == given_up
    if as_json:
        told = json.loads(result.output)
        assert {copy["remote_topic"] for copy in told if copy["given_up"]} == set(given_up)
        assert all(copy["damaged"] for copy in told)
