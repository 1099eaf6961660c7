"""What several integration tests ask for."""

from __future__ import annotations

import pytest

from tests.support.proof import recount_here


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifications recount in this process; no Data Docs are written."""
    recount_here(monkeypatch)
