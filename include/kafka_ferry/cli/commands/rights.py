"""``ferry rights``: what a flow's principals must be allowed to do, without any broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_ferry.cli.flows import answer_each, flows_of
from kafka_ferry.cli.options import ClustersOption, ConfigOption, FlowOption, JsonOption
from kafka_ferry.cli.terminal import out, show_table
from kafka_ferry.config import Cluster, Flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.model.rights import grant_commands

if TYPE_CHECKING:
    from kafka_ferry.runs.rights import NeededRight

PrincipalOption = Annotated[
    str | None,
    typer.Option(
        "--principal",
        metavar="TYPE:NAME",
        help="Print the kafka-acls.sh commands that grant the rights to this principal, such as User:ferry.",
    ),
]
CommandConfigOption = Annotated[
    str,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="The --command-config of these commands: an administrator's client properties.",
    ),
]


def rights(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    principal: PrincipalOption = None,
    command_config: CommandConfigOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the rights that a flow needs on its two clusters, and ask no broker."""
    from kafka_ferry.runs.rights import needed_rights

    if principal and ":" not in principal:
        raise typer.BadParameter("A principal is TYPE:NAME, such as User:ferry.")
    flows = flows_of(config, flow, clusters)

    def answer(flow: Flow) -> object:
        needed = needed_rights(flow)
        if not as_json:
            for cluster, side in ((flow.source, "source"), (flow.target, "target")):
                side_needs = [need for need in needed if need.side == side]
                if principal:
                    _show_commands(cluster, side_needs, principal, command_config)
                else:
                    _show(cluster, side_needs)
        listed = [_as_json(flow, need) for need in needed]
        return {"flow": flow.name, "rights": listed} if len(flows) > 1 else listed

    answer_each(flows, answer, as_json=as_json)


def _show(cluster: Cluster, needed: Sequence[NeededRight]) -> None:
    out.print(cluster.alias, style="bold")
    operations: dict[tuple[str, str], list[str]] = {}
    for need in needed:
        operations.setdefault((need.right.resource, need.why), []).append(need.right.operation)
    rows = ((resource, ", ".join(some), why) for (resource, why), some in operations.items())
    show_table(("RESOURCE", "OPERATIONS", "WHY"), rows)


def _show_commands(
    cluster: Cluster, needed: Sequence[NeededRight], principal: str, command_config: str
) -> None:
    print(f"# {cluster.alias}")
    commands = grant_commands(
        (need.right for need in needed),
        principal=principal,
        bootstrap=_bootstrap(cluster),
        config=command_config,
    )
    print("\n".join(commands))


def _bootstrap(cluster: Cluster) -> str:
    """The cluster's brokers, as far as the file says them here."""
    try:
        return cluster.client_properties("admin")["bootstrap.servers"]
    except ConfigError:
        # An Airflow connection, a file or a variable that only the workers have.
        return "BROKER"


def _as_json(flow: Flow, needed: NeededRight) -> dict[str, str]:
    cluster = flow.source if needed.side == "source" else flow.target
    return {
        "side": needed.side,
        "cluster": cluster.alias,
        "operation": needed.right.operation,
        "resource_type": needed.right.resource_type,
        "name": needed.right.name,
        "pattern_type": needed.right.pattern_type,
        "why": needed.why,
    }
