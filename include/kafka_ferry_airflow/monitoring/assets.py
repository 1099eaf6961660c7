"""Each mirrored topic as an asset of Airflow, updated when a run has proved what it holds.

Only brokers know which topics exist, and a run may prove some and not others: so a DAG has an alias as
its outlet, and a run adds the assets of the topics that it has proved.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk.types import OutletEventAccessorsProtocol

    from kafka_ferry.config import Flow
    from kafka_ferry.runs.verify.verified_topics import TopicProof

_MOST_ENDS: Final = 1000


def topic_asset(cluster: str, topic: str) -> Asset:
    """The asset of a mirrored topic, for the ``schedule`` of a DAG that waits for it.

    Args:
        cluster: the alias of the target cluster.
        topic: the topic's name there, such as ``primary.orders``.
    """
    # No broker's address: the name identifies an asset, and brokers move.
    name = f"{cluster}/{topic}"
    return Asset(name=name, uri=f"kafka://{name}")


def flow_alias(flow: Flow) -> AssetAlias:
    """The alias for all topics of ``flow``: a DAG that waits for it runs when any of them is updated."""
    return AssetAlias(name=f"kafka_ferry/{flow.slug}")


def add_asset_events(
    flow: Flow, run: str, proofs: Iterable[TopicProof], events: OutletEventAccessorsProtocol
) -> int:
    """Add an event for each topic that is proved; returns how many.

    Args:
        flow: the flow.
        run: the run's id.
        proofs: what the run has proved.
        events: the task's ``outlet_events``.
    """
    updated, alias = 0, events[flow_alias(flow)]
    for proof in proofs:
        if flow.asset_events == "copied" and not proof.records:
            continue
        alias.add(
            topic_asset(flow.target.alias, proof.remote_topic), extra=_extra(flow, run, proof)
        )
        updated += 1
    return updated


def _extra(flow: Flow, run: str, proof: TopicProof) -> dict[str, Any]:
    """An event's content: numbers, and times in ISO 8601."""
    extra: dict[str, Any] = {
        "flow": flow.name,
        "run": run,
        "topic": proof.topic,
        "records": proof.records,
        "bytes": proof.bytes,
    }
    if proof.window:
        span = {"since": proof.window.since_ms, "until": proof.window.until_ms}
        extra["backfill"] = {name: _iso(ms) for name, ms in span.items()}
    else:
        extra["complete_until"] = _iso(proof.complete_until)
    if len(proof.ends) <= _MOST_ENDS:
        extra["ends"] = {str(number): end for number, end in sorted(proof.ends.items())}
    return extra


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
