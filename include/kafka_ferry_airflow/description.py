"""What a flow's DAG says of itself in Airflow's pages."""

from __future__ import annotations

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
| reports | `{folder}/runs/<run>/report.html`, one a run |
| Data Docs | `{folder}/data_docs/index.html` |

**plan** says what is copied and what is not, and why. **sync_topics** creates what the target
lacks. **mirror** copies, **verify** reads the copy back and reconciles it with the source, also
where some partitions failed. **publish** writes the report and fails unless all of it is proved.

The target itself holds what is done. Any task may be cleared, retried or killed at any time:
nothing is lost and nothing is copied twice.
"""


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
        folder=f"{flow.state_path.rstrip('/')}/{flow.slug}",
    )


def _brokers(cluster: Cluster) -> str:
    return cluster.properties["bootstrap.servers"]


def _patterns(patterns: tuple[str, ...]) -> str:
    # A bar would end the cell of a table.
    return ", ".join(f"`{pattern}`" for pattern in patterns).replace("|", "\\|") or "nothing"


def _naming(flow: Flow) -> str:
    if flow.replication_policy_class == "IdentityReplicationPolicy":
        return "the same as on the source"
    return f"`{flow.source.alias}{flow.replication_policy_separator}<topic>`"
