"""A certificate of an authority below another one, whose keys take a while to make."""

from __future__ import annotations

import pytest

from kafka_sandbox.secure import Authority, Identity


@pytest.fixture(autouse=True)
def _on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is allowed where Airflow runs, as tests in the same process may have it."""
    monkeypatch.delenv("FERRY_CONFIG_PROVIDERS", raising=False)


@pytest.fixture(scope="session")
def root() -> Authority:
    return Authority("root")


@pytest.fixture(scope="session")
def identity(root: Authority) -> Identity:
    return Authority("between", root).issue("ferry")
