"""What the newest verification could not prove, where groups fail over to the copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.proofs import failed_entries
from kafka_ferry.runs.state.newest_verification import newest_verification
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable


def failed_verification(flow: Flow, ledger: LedgerTable) -> Iterator[str]:
    """A sentence where the newest verification failed: by the ledger, groups find there what it has missed.

    The ledger remembers what was found wrong with ranges, whatever has become of the state folder.
    """
    # A damaged file, or another release's, must not keep anybody from failing over.
    with suppress(FerryError):
        verification = newest_verification(flow)
        if verification and verification.failures:
            yield (
                f"{verification.text} No offset here counts as missing for that: ferry repair --findings shows which "
                f"records {flow.target.alias} lacks, and what to do."
            )
            return
    if failed := len(failed_entries(ledger)):
        yield (
            f"A verification has found ranges of {count(failed, 'transaction')} wrong, and none has proved them since. "
            f"No offset here counts as missing for that: ferry verify --all names what {flow.target.alias} lacks."
        )
