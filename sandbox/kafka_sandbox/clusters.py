"""The two clusters of the demo: ``python -m kafka_sandbox.clusters up | down | status``."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import start_all
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java.jars import SANDBOX

PORTS = {"primary": 19092, "backup": 29092}
"""By cluster: the first broker's port; the others follow, each with its controller on the port after it."""

app = typer.Typer(help="The demo's two Kafka clusters.", no_args_is_help=True)


def clusters(brokers: int | None = None) -> dict[str, Brokers]:
    """The clusters by name, running or not.

    Args:
        brokers: how many each has; None for as many as it has had so far, or one.

    Raises:
        SandboxError: a cluster has data of another number of brokers.
    """
    return {name: _cluster(name, port, brokers) for name, port in PORTS.items()}


@app.command()
def up(
    brokers: Annotated[
        int | None, typer.Option(min=1, help="How many each cluster has; 1 if it is new.")
    ] = None,
) -> None:
    """Starts what does not run yet; the data of earlier runs is still there."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        stopped = {name: it for name, it in clusters(brokers).items() if not it.is_up}
        if stopped:
            typer.echo(f"Starting {' and '.join(stopped)} ...")
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
    for cluster in clusters().values():
        if wipe:
            cluster.wipe()
        else:
            cluster.stop()
    _print_state()


@app.command()
def status() -> None:
    """Says what runs, and where."""
    _print_state()


def _cluster(name: str, port: int, count: int | None) -> Brokers:
    folder = SANDBOX / "clusters" / name
    so_far = len([*folder.glob("broker-*")])
    if count and so_far not in (0, count):
        raise SandboxError(
            f"{name} has data of {so_far} broker(s), and cannot continue with {count}: delete it with "
            "`make clean`, or leave BROKERS out."
        )
    count = count or so_far or 1
    ports = range(port, port + 2 * count, 2)
    return Brokers(folder, count=count, ports=ports, daemon=True)


def _print_state() -> None:
    for name, cluster in clusters().items():
        for broker in cluster.brokers.values():
            state = f"runs, process {broker.pid}" if broker.pid else "does not run"
            kept = f"files in {broker.directory}" if broker.directory.exists() else "no data"
            typer.echo(f"{name:8} {broker.bootstrap:16} {state}; {kept}")


if __name__ == "__main__":
    app()
