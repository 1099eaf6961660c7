"""What a JVM writes to stderr reaches this process's own, but for the line that every start has."""

from __future__ import annotations

import subprocess

import pytest

from kafka_ferry.secret_values import MASK, remember
from kafka_ferry.spark.driver_output import driver_stderr
from tests.support.waiting import wait_until

SAYS = "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2; echo 'Out of memory' >&2"


def test_all_but_the_note_on_incubator_modules_is_passed_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with driver_stderr() as stderr:
        process = subprocess.Popen(["sh", "-c", SAYS], stderr=stderr)
    process.wait()
    said: list[str] = []

    def is_said() -> bool:
        said.append(capsys.readouterr().err)
        return bool("".join(said))

    wait_until(is_said)
    assert "".join(said) == "Out of memory\n"


def test_the_last_words_of_a_jvm_come_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        with driver_stderr() as stderr:
            subprocess.run(["sh", "-c", SAYS], stderr=stderr, check=False)
            raise RuntimeError("it did not start")

    with pytest.raises(RuntimeError, match="did not start"):
        start()

    assert capsys.readouterr().err == "Out of memory\n"


def test_no_secret_and_no_control_character_comes_with_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    remember(["correct-horse-battery"])
    says = r"printf 'at x: password=correct-horse-battery\033[2J\n' >&2"
    with pytest.raises(RuntimeError), driver_stderr() as stderr:
        subprocess.run(["sh", "-c", says], stderr=stderr, check=False)
        raise RuntimeError
    assert capsys.readouterr().err == f"at x: password={MASK}\\x1b[2J\n"
