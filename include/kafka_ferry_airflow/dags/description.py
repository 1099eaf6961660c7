"""The text and the tags with which a flow's DAG describes itself in Airflow's pages."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_ferry.config import Cluster, Flow

_TEXT = """\
Copies {topics} of the cluster **{source.alias}** (`{from_}`) to the cluster
**{target.alias}** (`{to}`), exactly once, and proves that the copy is complete.

| | |
| --- | --- |
| flow | `{flow.name}` in `{flow.file}` |
| left out | {excluded} |
| names on the target | {naming} |
| timetable | {when} |
| deadline | {deadline} |
| approval | {approval} |
| reports | `{folder}/runs/<run>/report.html`, one a run |
| Data Docs | `{folder}/data_docs/index.html` |

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
    return _TEXT.format(
        flow=flow,
        source=flow.source,
        target=flow.target,
        topics=_patterns(flow.topics),
        excluded=_patterns(flow.topics_exclude),
        from_=_brokers(flow.source),
        to=_brokers(flow.target),
        naming=_naming_text(flow),
        when=_when(flow),
        deadline=_deadline(flow),
        assets=_assets(flow),
        approval=_APPROVALS[flow.approval],
        folder=f"{flow.state_path.rstrip('/')}/{flow.slug}",
        ignored="".join(_ignored_keys(flow)),
    )


def tags_of(flow: Flow, kind: str) -> list[str]:
    """The tags of a DAG of ``flow``, by which users find it; ``kind`` is what it does."""
    return ["kafka-ferry", kind, f"source:{flow.source.alias}", f"target:{flow.target.alias}"]


def _when(flow: Flow) -> str:
    waits = ", ".join(f"`{asset}`" for asset in flow.schedule_assets).replace("|", "\\|")
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
    yield from (f"- `{key}`: {why}\n" for key, why in flow.ignored)


def _brokers(cluster: Cluster) -> str:
    connection = f"the connection {cluster.airflow_connection}"
    return cluster.properties.get("bootstrap.servers") or connection


def _patterns(patterns: tuple[str, ...]) -> str:
    # A bar would end the table cell.
    return ", ".join(f"`{pattern}`" for pattern in patterns).replace("|", "\\|") or "nothing"


def _naming_text(flow: Flow) -> str:
    renamed = f"; {len(flow.topics_rename)} by `topics.rename`" if flow.topics_rename else ""
    policy = flow.replication_policy_class
    if policy == "IdentityReplicationPolicy":
        return f"the same as on the source{renamed}"
    if policy == "DefaultReplicationPolicy":
        return f"`{flow.source.alias}{flow.replication_policy_separator}<topic>`{renamed}"
    return f"by `{policy}`{renamed}"
