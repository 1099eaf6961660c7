"""The two clusters of the demo: ``python -m kafka_sandbox.clusters up | down | status``."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from kafka_sandbox.broker import Broker, start_all
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.jars import SANDBOX

PORTS = {"primary": 19092, "backup": 29092}
"""By cluster: the broker's port; its controller listens on the next one."""

app = typer.Typer(help="The demo's two Kafka clusters.", no_args_is_help=True)


def brokers() -> dict[str, Broker]:
    """The clusters by name, running or not."""
    home = SANDBOX / "clusters"
    return {
        name: Broker(home / name, port=port, controller_port=port + 1, daemon=True)
        for name, port in PORTS.items()
    }


@app.command()
def up() -> None:
    """Starts what does not run yet; the data of earlier runs is still there."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stopped = {name: broker for name, broker in brokers().items() if broker.pid is None}
    if stopped:
        typer.echo(f"Starting {' and '.join(stopped)} ...")
    try:
        start_all(stopped.values())
    except SandboxError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    finally:
        _print_state()


@app.command()
def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the data too.")] = False,
) -> None:
    """Stops both clusters and keeps their data."""
    for broker in brokers().values():
        if wipe:
            broker.wipe()
        else:
            broker.stop()
    _print_state()


@app.command()
def status() -> None:
    """Says what runs, and where."""
    _print_state()


def _print_state() -> None:
    for name, broker in brokers().items():
        state = f"runs, process {broker.pid}" if broker.pid else "does not run"
        kept = f"files in {broker.directory}" if broker.directory.exists() else "no data"
        typer.echo(f"{name:8} {broker.bootstrap:16} {state}; {kept}")


if __name__ == "__main__":
    app()
