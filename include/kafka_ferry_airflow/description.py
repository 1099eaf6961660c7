"""What a flow's DAG says of itself in Airflow's pages."""

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
| approval | {approval} |
| reports | `{folder}/runs/<run>/report.html`, one a run |
| Data Docs | `{folder}/data_docs/index.html` |

**plan** says what is copied and what is not, and why. **sync_topics** creates what the target
lacks. **mirror** copies, **verify** reads the copy back and reconciles it with the source, also
where some partitions failed. **publish** writes the report and fails unless all of it is proved.

The target itself holds what is done. Any task may be cleared, retried or killed at any time:
nothing is lost and nothing is copied twice.
{ignored}"""

_APPROVALS = {
    "never": "none: a run does what it has planned",
    "changes": "**approve** waits for a person where a plan changes more than records",
    "always": "**approve** waits for a person, in each run",
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
        naming=_naming(flow),
        when=f"`{flow.schedule}` (UTC)" if flow.schedule else "none: it is started by hand",
        approval=_APPROVALS[flow.approval],
        folder=f"{flow.state_path.rstrip('/')}/{flow.slug}",
        ignored="".join(_ignored(flow)),
    )


def _ignored(flow: Flow) -> Iterator[str]:
    """What the file says in vain, where it does."""
    if flow.ignored:
        yield "\nIn the file, but without effect here:\n\n"
    yield from (f"- `{key}`: {why}\n" for key, why in flow.ignored)


def _brokers(cluster: Cluster) -> str:
    connection = f"the connection {cluster.airflow_connection}"
    return cluster.properties.get("bootstrap.servers") or connection


def _patterns(patterns: tuple[str, ...]) -> str:
    # A bar would end the cell of a table.
    return ", ".join(f"`{pattern}`" for pattern in patterns).replace("|", "\\|") or "nothing"


def _naming(flow: Flow) -> str:
    renamed = f"; {len(flow.topics_rename)} by `topics.rename`" if flow.topics_rename else ""
    policy = flow.replication_policy_class
    if policy == "IdentityReplicationPolicy":
        return f"the same as on the source{renamed}"
    if policy == "DefaultReplicationPolicy":
        return f"`{flow.source.alias}{flow.replication_policy_separator}<topic>`{renamed}"
    return f"by `{policy}`{renamed}"
