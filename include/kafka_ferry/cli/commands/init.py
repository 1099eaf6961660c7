"""``ferry init``: a first flow file, with what most flows need, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_ferry.cli.options import FLOW_FILE
from kafka_ferry.cli.terminal import out, show_json
from kafka_ferry.config import load_flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.printable import one_line

_FILE: Final = """\
# A flow: what one cluster copies to another. Names are those of MirrorMaker 2 and of Kafka's Java clients.

source:
  # It goes before the topics' names on the target: orders of {source_name} becomes {source_name}.orders.
  alias: {source_alias}
  bootstrap.servers: {source}
  # TLS and logins, on either side; secrets can stay in a file of their own:
  # security.protocol: SASL_SSL
  # sasl.mechanism: SCRAM-SHA-512
  # sasl.jaas.config: ${{file:/etc/kafka-ferry/secrets.properties:source.jaas}}

target:
  alias: {target_alias}
  bootstrap.servers: {target}

# What looks up a value such as ${{file:...}}, of either cluster.
# config.providers: [file]

# Names, or Java regular expressions that match a whole name.
topics: {topics}

# How many brokers hold each topic that is created on the target; -1 takes its brokers' default.
replication.factor: -1

# Groups whose offsets each run translates and commits on the target.
# groups: [billing, shop.*]
# sync.group.offsets.enabled: true

# When Airflow runs it.
schedule: "@hourly"
"""


def init(
    source: Annotated[str, typer.Argument(help="Brokers to copy from: host:port, ...")],
    target: Annotated[str, typer.Argument(help="Brokers to copy to: host:port, ...")],
    config: Annotated[Path, typer.Option("--config", help="The file to write.")] = FLOW_FILE,
    topics: Annotated[
        str, typer.Option("--topics", help="Names or Java regular expressions, by commas.")
    ] = ".*",
    source_alias: Annotated[str, typer.Option(help="The source's name.")] = "primary",
    target_alias: Annotated[str, typer.Option(help="The target's name.")] = "backup",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Write a first flow file, and ask no broker; a file that exists stays as it is."""
    content = _FILE.format(
        source=json.dumps(source),
        target=json.dumps(target),
        source_alias=json.dumps(source_alias),
        source_name=one_line(source_alias),
        target_alias=json.dumps(target_alias),
        topics=json.dumps([pattern.strip() for pattern in topics.split(",")]),
    )
    config.parent.mkdir(parents=True, exist_ok=True)
    try:
        # A link counts as a file, also one that leads to none.
        with config.open("x") as file:
            file.write(content)
    except FileExistsError:
        advice = "Name another one with --config."
        raise ConfigError(str(config), "file", "exists already", advice=advice) from None
    try:
        name = load_flow(config.absolute()).name
    except ConfigError:
        config.unlink()
        raise
    if as_json:
        show_json([{"config": str(config), "flow": name}], several=False)
        return
    out.print(f"{config} holds the flow {name}.")
    option = "" if config == FLOW_FILE else f" --config {config}"
    out.print(f"Next: ferry check{option}, then ferry plan{option}")
