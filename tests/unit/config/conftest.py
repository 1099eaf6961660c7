"""A certificate of an authority below another one, whose keys take a while to make."""

from __future__ import annotations

import pytest

from kafka_sandbox.logins.secure import Authority, Identity


@pytest.fixture(scope="session")
def root() -> Authority:
    return Authority("root")


@pytest.fixture(scope="session")
def identity(root: Authority) -> Identity:
    return Authority("between", root).issue("ferry")
