"""How fast a run, or a part of it, may send."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rate:
    """The most that may be sent in a second; 0 of either for no limit.

    Attributes:
        bytes_per_s: bytes of record batches, compressed as they are.
        records_per_s: records.
    """

    bytes_per_s: int = 0
    records_per_s: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return any(astuple(self))


UNLIMITED: Final = Rate()
