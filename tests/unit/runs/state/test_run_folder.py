"""What a run's folder says of its steps, whichever process has tried them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.copy import OutcomeFiles
from kafka_ferry.errors import FerryError
from kafka_ferry.report.measures import VerifiedUntil
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.state import StateFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(StateFolder(str(tmp_path)), "run-1")


def test_a_step_has_no_record_until_it_has_ended(folder: RunFolder) -> None:
    with folder.step("mirror"):
        assert folder.step_record("mirror") is None

    record = folder.step_record("mirror")
    assert record is not None and record.error is None


def test_an_attempt_that_outlives_its_task_cannot_spoil_the_next_ones_success(
    folder: RunFolder,
) -> None:
    with pytest.raises(FerryError, match="fenced"), folder.step("mirror"):
        with folder.step("mirror"):
            pass
        raise FerryError("fenced")

    assert folder.failure("mirror") is None
    assert folder.step_record("mirror") is not None


def test_an_attempt_that_outlives_its_task_cannot_pretend_that_the_next_one_has_ended(
    folder: RunFolder,
) -> None:
    with folder.step("mirror"):
        folder.forget("mirror")  # as the next try does before its own process begins

    assert folder.step_record("mirror") is None


def test_a_shard_that_is_begun_again_leaves_the_others_records(folder: RunFolder) -> None:
    for shard in range(2):
        with folder.step("mirror", shard):
            pass

    folder.forget("mirror", shard=0)

    assert folder.step_record("mirror", 0) is None
    assert folder.step_record("mirror", 1) is not None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"a":' + b"[" * 100_000, id="nested"),
        pytest.param(b'{"a":' + b"9" * 5_000 + b"}", id="large number"),
        pytest.param(b"\0" * 100, id="zeros"),
    ],
)
def test_a_damaged_record_of_a_step_is_named(folder: RunFolder, content: bytes) -> None:
    folder.files.write("step-plan.json", content)
    with pytest.raises(FerryError, match=r"step-plan\.json in .* cannot be read") as raised:
        folder.step_record("plan")
    assert "delete it" in raised.value.advice


@pytest.mark.parametrize("left", [b"", b'{"topics": [', bytes(99)])
def test_a_torn_file_beside_the_runs_fails_none_of_them(
    folder: RunFolder, tmp_path: Path, left: bytes
) -> None:
    for name in ("groups-seen.json", "verified-until.json"):
        (tmp_path / name).write_bytes(left)

    assert folder.groups_seen() is None
    assert folder.verified_until() == VerifiedUntil()


@pytest.mark.parametrize("left", [b"", b"[{", b"[1]"])
def test_a_torn_file_of_outcomes_is_left_out(
    tmp_path: Path, left: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = StateFolder(str(tmp_path))
    OutcomeFiles(folder, "one").write(1, [])
    folder.write("outcomes-two-000001.json", left)

    assert OutcomeFiles.read_all(folder) == []
    assert "outcomes-two-000001.json" in caplog.text
