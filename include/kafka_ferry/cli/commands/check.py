"""``ferry check``: whether a file's flows are valid, without any broker."""

from __future__ import annotations

from kafka_ferry.cli.flows import flows_of
from kafka_ferry.cli.options import ClustersOption, ConfigOption, FlowOption
from kafka_ferry.cli.terminal import messages, out
from kafka_ferry.plan.topics.unused_options import unused_registries


def check(config: ConfigOption, flow: FlowOption = None, clusters: ClustersOption = None) -> None:
    """Check a flow's file, and ask no broker. Exits with 0 if a run would accept it."""
    for found in flows_of(config, flow, clusters):
        topics = ", ".join(found.topics)
        out.print(f"{config}: {found.name} is valid; it copies {topics}")
        for note in unused_registries(found):
            messages.print(f"{config}: {note}")
