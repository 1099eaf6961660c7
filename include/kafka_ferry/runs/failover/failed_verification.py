"""What the newest verification could not prove, where groups fail over to the copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_ferry.errors import FerryError
from kafka_ferry.runs.state.newest_verification import newest_verification

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


def failed_verification(flow: Flow) -> Iterator[str]:
    """A sentence where the newest verification failed: by the ledger, groups find there what it has missed."""
    # A damaged file, or another release's, must not keep anybody from failing over.
    with suppress(FerryError):
        verification = newest_verification(flow)
        if verification and verification.failures:
            yield (
                f"{verification.text} No offset here counts as missing for that: ferry repair --findings shows which "
                f"records {flow.target.alias} lacks, and what to do."
            )
