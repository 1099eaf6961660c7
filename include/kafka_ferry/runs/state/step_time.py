"""The time that all calls of a step share, and which brokers to blame when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kafka_ferry.errors import ClusterUnreachable, FerryError, GroupsFailed
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.retry import retry_for
from kafka_ferry.wire.silent_brokers import silent_brokers

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow


@contextmanager
def step_time(
    flow: Flow,
    *,
    spent: bool = False,
    on_outage: Callable[[], None] = lambda: None,
    asks_source: bool = True,
) -> Iterator[None]:
    """Let all calls in the body share ``admin.timeout.ms``; where they gave up, say which brokers do not answer.

    Args:
        flow: the flow.
        spent: whether a step before has waited that long already: each call is made once then.
        on_outage: called if there are such brokers.
        asks_source: whether the source is to be asked, too.
    """
    try:
        limit_s = flow.admin_timeout_ms / 1000
        with retry_for(limit_s, spent=spent, is_waited_for=flow.is_waited_for):
            yield
    except (ClusterUnreachable, RangesFailed, GroupsFailed) as error:
        clusters = (flow.source, flow.target) if asks_source else (flow.target,)
        if error.transient and (outages := _outages(clusters)):
            error.advice = f"{outages} {error.advice}".strip()
            on_outage()
        raise


def _outages(clusters: Iterable[Cluster]) -> str:
    """A sentence for each cluster with brokers that do not answer; "" where all of them do."""
    sentences = []
    for cluster in clusters:
        with suppress(FerryError):
            if silent := silent_brokers(cluster):
                sentences.append(
                    f"Brokers of {cluster.alias} that do not answer: {', '.join(silent)}."
                )
    return " ".join(sentences)
