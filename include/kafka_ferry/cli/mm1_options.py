"""MirrorMaker 1's options, of all its releases, and what each does here.

``kafka.tools.MirrorMaker`` of 0.7.2 (the first one), 0.8.1 (``queue.size``), 0.8.2 (``new.producer``),
0.9 to 2.8 (handlers, listeners, ``abort.on.send.failure``) and 3.0 to 3.9 (``include``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

_MOST_WRITERS: Final = 1000
_FIFTEEN_MINUTES_MS: Final = 15 * 60 * 1000  # the brokers' transaction.max.timeout.ms

ConsumersOption = Annotated[
    list[Path],
    typer.Option(
        "--consumer.config",
        metavar="FILE",
        help="The consumer's properties of a source; repeatable, each names a cluster of its own.",
    ),
]
ProducerOption = Annotated[
    Path,
    typer.Option("--producer.config", metavar="FILE", help="The producer's, of the target."),
]
WhitelistOption = Annotated[
    str | None,
    typer.Option(
        *("--whitelist", "--include"),
        metavar="REGEX",
        help="The topics to copy: one Java regular expression, in which a comma means |.",
    ),
]
BlacklistOption = Annotated[
    str | None,
    typer.Option("--blacklist", metavar="REGEX", help="The topics to leave out, in the same form."),
]
StreamsOption = Annotated[
    int | None,
    typer.Option(
        "--num.streams",
        metavar="N",
        min=1,
        max=_MOST_WRITERS,
        help="Writers of each flow, and Spark tasks at a time.",
    ),
]
ProducersOption = Annotated[
    int | None,
    typer.Option(
        "--num.producers",
        metavar="N",
        min=1,
        max=_MOST_WRITERS,
        help="The same; the larger number counts.",
    ),
]
CommitIntervalOption = Annotated[
    int | None,
    typer.Option(
        "--offset.commit.interval.ms",
        metavar="MS",
        min=1,
        max=_FIFTEEN_MINUTES_MS - 1,
        help="How long a transaction may last, which commits records and positions together.",
    ),
]
OLDER_ABORTS: Final = ("--abortOnSendFail", "--abort.on.send.fail")
"""The first name of ``--abort.on.send.failure``."""

AbortOption = Annotated[
    str,
    typer.Option(
        *("--abort.on.send.failure", *OLDER_ABORTS),
        metavar="[true]",
        help="A partition that cannot be written to stops, and the run's error names it. "
        "false is refused: it loses records.",
    ),
]
QueueOption = Annotated[
    int | None, typer.Option("--queue.size", metavar="N", help="Nothing queues: no effect.")
]
NewConsumerOption = Annotated[bool, typer.Option("--new.consumer", help="No effect.")]
NewProducerOption = Annotated[bool, typer.Option("--new.producer", help="No effect.")]
HandlerOption = Annotated[
    str | None,
    typer.Option("--message.handler", metavar="CLASS", help="Refused: no record is opened."),
]
HandlerArgsOption = Annotated[
    str | None, typer.Option("--message.handler.args", metavar="TEXT", help="Refused with it.")
]
ListenerOption = Annotated[
    str | None,
    typer.Option(
        "--consumer.rebalance.listener", metavar="CLASS", help="Refused: nothing rebalances."
    ),
]
ListenerArgsOption = Annotated[
    str | None, typer.Option("--rebalance.listener.args", metavar="TEXT", help="Refused with it.")
]
WriteConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--write-config",
        metavar="FILE",
        help="Write the flows into this .properties file instead of running them.",
    ),
]

_NOTHING_IS_OPENED: Final = (
    "batches are copied as they are, and no record is opened, so that no handler can be called for "
    "each. To change records, read the copy."
)
_NOTHING_REBALANCES: Final = (
    "each partition belongs to one writer, and no consumer group assigns them, so that there is no "
    "rebalance to listen to."
)
REFUSED: Final[Mapping[str, str]] = {
    "--message.handler": _NOTHING_IS_OPENED,
    "--message.handler.args": _NOTHING_IS_OPENED,
    "--consumer.rebalance.listener": _NOTHING_REBALANCES,
    "--rebalance.listener.args": _NOTHING_REBALANCES,
}
"""Options that name custom code, each with the reason why it cannot run here."""

IN_VAIN: Final[Mapping[str, str]] = {
    "--queue.size": "no records queue between a consumer and a producer; transaction.max.bytes bounds "
    "the data in flight of each writer",
    "--new.consumer": "there is one kind of consumer",
    "--new.producer": "there is one kind of producer",
}
"""Options that change nothing here, each with the reason or what replaces it."""
