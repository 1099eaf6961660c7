"""The text and the tags with which a flow's DAG describes itself in Airflow's pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.printable import one_line

TAG: Final = "kafka-ferry"
"""The tag of all DAGs of flows."""
_MOST_PATTERNS: Final = 100
_TICKS: Final = re.compile("`+")

_TEXT = """\
Copies {topics} of the cluster **{source.alias}** ({from_}) to the cluster
**{target.alias}** ({to}), exactly once, and proves that the copy is complete.

| | |
| --- | --- |
| flow | `{flow.name}` in {file} |
| left out | {excluded} |
| names on the target | {naming} |
| timetable | {when} |
| deadline | {deadline} |
| approval | {approval} |
| reports | {reports}, one a run |
| Data Docs | {data_docs} |

**plan** says what the run copies, what it does not copy, and why. **sync_topics** creates what the
target lacks. **mirror** copies. **verify** reads the copy back and reconciles it with the source,
even if some partitions failed. **sync_groups** translates the offsets of consumer groups, and commits them
if the flow says so. **publish** writes the report and fails unless everything is proved.
{assets}
The target itself records what is done. You may clear, retry or kill any task at any time: nothing is
lost and nothing is copied twice.
{ignored}"""

_APPROVALS = {
    "never": "none: a run does what it has planned",
    "changes": "**approve** waits for a user if a plan changes more than records",
    "always": "**approve** waits for a user, in each run",
}


def describe(flow: Flow) -> str:
    """The DAG's documentation in Markdown; of the clusters' properties only their brokers."""
    folder = f"{flow.state_path.rstrip('/')}/{flow.slug}"
    return _TEXT.format(
        flow=flow,
        source=flow.source,
        target=flow.target,
        topics=_patterns(flow.topics),
        excluded=_patterns(flow.topics_exclude),
        from_=_code(_brokers(flow.source)),
        to=_code(_brokers(flow.target)),
        file=_code(flow.file),
        naming=_naming_text(flow),
        when=_when(flow),
        deadline=_deadline(flow),
        assets=_assets(flow),
        approval=_APPROVALS[flow.approval],
        reports=_code(f"{folder}/runs/<run>/report.html"),
        data_docs=_code(f"{folder}/data_docs/index.html"),
        ignored="".join(_ignored_keys(flow)),
    )


def tags_of(flow: Flow, kind: str) -> list[str]:
    """The tags of a DAG of ``flow``, by which users find it; ``kind`` is what it does."""
    return [TAG, kind, f"source:{flow.source.alias}", f"target:{flow.target.alias}"]


def _when(flow: Flow) -> str:
    waits = ", ".join(map(_code, flow.schedule_assets))
    trigger = f"when {flow.schedule_assets_when} of {waits} were updated" if waits else ""
    if flow.schedule_interval:
        trigger = f"every `{flow.schedule}`" + (f", or {trigger}" if trigger else "")
    elif flow.schedule:
        trigger = f"`{flow.schedule}` ({flow.timezone})" + (f", or {trigger}" if trigger else "")
    return trigger or "none: you trigger it"


def _deadline(flow: Flow) -> str:
    if flow.deadline is None:
        return "none"
    since = "its logical date" if flow.deadline_from == "logical-date" else "it was queued"
    return f"{flow.deadline} (hours:minutes:seconds) after {since}"


def _assets(flow: Flow) -> str:
    if flow.asset_events == "none":
        return ""
    return (
        f"**update_assets** updates the assets `{flow.target.alias}/<topic>` of what is proved.\n"
    )


def _ignored_keys(flow: Flow) -> Iterator[str]:
    """The keys of the file that have no effect, if there are any."""
    if flow.ignored:
        yield "\nIn the file, but without effect here:\n\n"
    yield from (f"- {_code(key)}: {one_line(why)}\n" for key, why in flow.ignored)


def _brokers(cluster: Cluster) -> str:
    connection = f"the connection {cluster.airflow_connection}"
    return cluster.properties.get("bootstrap.servers") or connection


def _patterns(patterns: tuple[str, ...]) -> str:
    more = len(patterns) - _MOST_PATTERNS
    shown = ", ".join(map(_code, patterns[:_MOST_PATTERNS])) or "nothing"
    return f"{shown} and {more:,} more" if more > 0 else shown


def _code(text: str) -> str:
    """A text of the flow's file as code in Markdown: nothing in it is markup, or ends the table's cell."""
    text = one_line(text).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def _naming_text(flow: Flow) -> str:
    renamed = f"; {len(flow.topics_rename)} by `topics.rename`" if flow.topics_rename else ""
    policy = flow.replication_policy_class
    if policy == "IdentityReplicationPolicy":
        return f"the same as on the source{renamed}"
    if policy == "DefaultReplicationPolicy":
        return f"`{flow.source.alias}{flow.replication_policy_separator}<topic>`{renamed}"
    return f"by `{policy}`{renamed}"
