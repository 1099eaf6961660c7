"""Whether a writer may write: by the ledger's newest records, now that no writer before it can."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import Fenced
from kafka_ferry.ledger import LedgerError, ledger_topic, newest_claims
from kafka_ferry.wire import WireCluster


def require_claims(
    cluster: WireCluster, settings: WriterSettings, topics: AbstractSet[str]
) -> None:
    """Require that the ledger still gives remote topics to this writer's run.

    Args:
        cluster: the target, with no request on its way.
        settings: the writer's.
        topics: the remote topics.

    Raises:
        Fenced: if a newer run has other writers, or the topics were given back to MirrorMaker 2.
        LedgerError: if the ledger no longer has the beginning of the run, or cannot be read.
    """
    ledger, flow = ledger_topic(settings.source_alias), settings.flow
    newest, given_back = newest_claims(cluster, flow, ledger, settings.since or 0)
    if lost := sorted(given_back & topics):
        raise Fenced(
            f"{flow} has given {', '.join(lost)} back to MirrorMaker 2.",
            advice="Take it over again (ferry takeover --from mm2) before the next run.",
        )
    if newest is None and settings.since is not None:
        raise LedgerError(
            f"The topic {ledger} on {settings.alias} no longer has the beginning of the run {settings.run}: its log "
            "was truncated, and what is copied already cannot be told.",
            advice="Run the flow again: it compares the copies with what is left of the ledger.",
        )
    if newest and (newest.writers, newest.assignment) != settings.assignment:
        raise Fenced(
            f"The run {newest.run} of {flow} took over, with other writers "
            f"({newest.writers} instead of {settings.assignment[0]})."
        )
