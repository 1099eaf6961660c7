"""The command ``ferry``: its subcommands, and its exit status after an error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer

from kafka_ferry.cli.command import Command, with_value
from kafka_ferry.cli.commands import (
    backfill,
    check,
    failback,
    failover,
    init,
    lag,
    mirror_maker,
    plan,
    rights,
    run,
    takeover,
    translate,
)
from kafka_ferry.cli.commands.proof import audit, certificate, repair, verify, where
from kafka_ferry.cli.interrupt import interruptible
from kafka_ferry.cli.terminal import out, show_error, show_traceback
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.printable import Printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    init.init,
    check.check,
    rights.rights,
    plan.plan,
    run.run,
    backfill.backfill,
    verify.verify,
    lag.lag,
    repair.repair,
    takeover.takeover,
    audit.audit,
    translate.translate,
    where.where,
    failover.failover,
    failback.failback,
):
    app.command(cls=Command)(_command)
app.add_typer(certificate.app, name="certificate")
app.command(cls=mirror_maker.WholeNames)(mirror_maker.mirror_maker)

_CLUSTERS: Final = "--clusters"


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        out.print(f"ferry {version('kafka-ferry')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Copies Kafka clusters into other Kafka clusters, and proves that each copy is complete."""


def main() -> None:
    """Run the command line; a ``FerryError`` ends it with that error's exit status."""
    handler = logging.StreamHandler()
    handler.setFormatter(Printable("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    sys.excepthook = show_traceback
    with interruptible():
        sys.exit(_run())


def _run() -> int:
    """Run the command, and give its exit status."""
    try:
        status = app(_complete(sys.argv[1:]), standalone_mode=False)
    except FerryError as error:
        show_error(error)
        return error.exit_code
    except typer.Abort:
        return 1
    except typer.TyperException as error:
        shown: Any = error
        if isinstance(error, typer.BadParameter):
            shown.message = with_value(shown, sys.argv[1:])
        shown.show()
        # Not typer's own status 2, which means a plan with differences.
        return ConfigError.exit_code
    return status or 0


def _complete(arguments: Sequence[str]) -> list[str]:
    return list(mirror_maker.with_values(list(_one_value_each(arguments))))


def _one_value_each(arguments: Sequence[str]) -> Iterator[str]:
    """``--clusters A B``, as MirrorMaker 2 has it, as ``--clusters A --clusters B``."""
    spreading = waiting = False
    for argument in arguments:
        if argument.startswith("-"):
            spreading = waiting = argument == _CLUSTERS
        elif spreading and not waiting:
            yield _CLUSTERS
        else:
            waiting = False
        yield argument
