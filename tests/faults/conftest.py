"""What all tests at random have in common."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What decides all that happens: a new one, or that of ``--storm-seed``."""
    given = request.config.getoption("--storm-seed")
    return random.SystemRandom().randrange(1 << 32) if given is None else int(given)
