"""How long a run waits for what a broker or another run may be about to do, where a test knows that nothing comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

_SHORT: Final[Mapping[str, tuple[float, ...]]] = {
    # Markers that are on their way to the ledger, the positions or a log come with the first look or the second.
    "state.known_positions": (0.1, 0.3),
    "provenance.log_ends": (0.1, 0.3),
    "verify.verify": (0.0, 0.2),
    "failover.failover": (0.2,),
}


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs look twice at what contradicts the ledger, within half a second, and then believe it."""
    for module, pauses in _SHORT.items():
        monkeypatch.setattr(f"kafka_ferry.runs.{module}._PAUSES_S", pauses)
