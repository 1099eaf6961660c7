"""``ferry mirror-maker``: does what MirrorMaker 1 did, with its own files and options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from kafka_ferry.cli import mm1_options as options
from kafka_ferry.cli.command import require_once
from kafka_ferry.cli.commands.run import run_flows
from kafka_ferry.cli.options import JsonOption
from kafka_ferry.cli.terminal import messages, warn
from kafka_ferry.config.files.mm1_properties import read_source, read_target
from kafka_ferry.config.files.mm2_properties import parse_flows
from kafka_ferry.errors import ConfigError

if TYPE_CHECKING:
    from kafka_ferry.runs.takeover.mirrormaker1 import ClusterIds, MirrorMaker1

_ABORT: Final = "--abort.on.send.failure"
_ABORTS: Final = (_ABORT, *options.OLDER_ABORTS)
_SUFFIX: Final = ".properties"


class WholeNames(TyperCommand):
    """A command whose help does not truncate long option names, and whose options are not given twice."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help as plain text."""
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command's, but an option that takes one value may be given once, by one of its names."""
        require_once(self, ctx, args)
        return super().parse_args(ctx, args)


def mirror_maker(
    *,
    consumer_config: options.ConsumersOption,
    producer_config: options.ProducerOption,
    whitelist: options.WhitelistOption = None,
    blacklist: options.BlacklistOption = None,
    num_streams: options.StreamsOption = None,
    num_producers: options.ProducersOption = None,
    offset_commit_interval_ms: options.CommitIntervalOption = None,
    abort_on_send_failure: options.AbortOption = "true",
    queue_size: options.QueueOption = None,
    new_consumer: options.NewConsumerOption = False,
    new_producer: options.NewProducerOption = False,
    message_handler: options.HandlerOption = None,
    message_handler_args: options.HandlerArgsOption = None,
    consumer_rebalance_listener: options.ListenerOption = None,
    rebalance_listener_args: options.ListenerArgsOption = None,
    write_config: options.WriteConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy from each source to the target what is new, by the files and options of MirrorMaker 1.

    Topics keep their names. Exits with 0 only if all of it is proved; the next call continues from there.
    """
    from kafka_ferry.runs.takeover.mirrormaker1 import MirrorMaker1

    _refuse_code(
        {
            "--message.handler": message_handler,
            "--message.handler.args": message_handler_args,
            "--consumer.rebalance.listener": consumer_rebalance_listener,
            "--rebalance.listener.args": rebalance_listener_args,
        }
    )
    _refuse_to_lose(abort_on_send_failure)
    if write_config and write_config.suffix != _SUFFIX:
        raise typer.BadParameter(f"--write-config: the file's name must end in {_SUFFIX}.")
    mirror = MirrorMaker1(
        sources=[read_source(file) for file in consumer_config],
        target=read_target(producer_config),
        whitelist=whitelist,
        blacklist=blacklist,
        streams=num_streams,
        producers=num_producers,
        commit_interval_ms=offset_commit_interval_ms,
    )
    mirror.check()
    in_vain = {
        "--queue.size": queue_size is not None,
        "--new.consumer": new_consumer,
        "--new.producer": new_producer,
    }
    _tell(mirror, [option for option, is_set in in_vain.items() if is_set])
    _carry_out(mirror, write_config, as_json=as_json)


def _carry_out(mirror: MirrorMaker1, write_config: Path | None, *, as_json: bool) -> None:
    """Run the flows of MirrorMaker 1, or write them down."""
    from kafka_ferry.runs.takeover.mirrormaker1 import as_properties, ask_cluster_ids

    ids = ask_cluster_ids(mirror)
    _tell_ids(mirror, ids)
    flows = as_properties(mirror, ids)
    if write_config:
        _write_privately(write_config, flows)
        messages.print(
            f"{write_config} holds {len(ids.sources)} flow(s), with all secrets of the files, "
            f"and only you can read it. Run it with: ferry run --config {write_config}"
        )
        return
    made = parse_flows(flows.encode("latin-1"), "ferry mirror-maker")
    run_flows(made, as_json=as_json, tasks=mirror.tasks)


def with_values(arguments: Sequence[str]) -> Iterator[str]:
    """``--abort.on.send.failure`` without a value means ``true``; typer has no optional values."""
    for argument, after in zip_longest(arguments, arguments[1:], fillvalue="--"):
        yield argument
        if argument in _ABORTS and after.startswith("-"):
            yield "true"


def _refuse_code(values: Mapping[str, str | None]) -> None:
    for option, value in values.items():
        if value is not None:
            raise typer.BadParameter(f"{option} cannot be used here: {options.REFUSED[option]}")


def _refuse_to_lose(abort: str) -> None:
    if abort.lower() == "true":
        return
    if abort.lower() != "false":
        raise typer.BadParameter(f"{_ABORT} must be true or false.")
    raise typer.BadParameter(
        f"{_ABORT} false cannot be used here: continuing after a record that could not be sent "
        "loses it. Write the flows with --write-config and set on.rejected.record = dead-letter there: "
        "records that the target rejects go to a topic of their own, and the others are copied."
    )


def _tell(mirror: MirrorMaker1, in_vain: Iterable[str]) -> None:
    """What is done differently from the options and files, or is left open by them: a line each."""
    lines = [f"{option}: {options.IN_VAIN[option]}" for option in in_vain]
    for source in mirror.sources:
        lines += [f"{source.file}: {remark}" for remark in mirror.remarks_on(source)]
    lines += [f"{mirror.target.file}: {remark}" for remark in mirror.target.remarks]
    for line in lines:
        warn(f"NOTE {line}")


def _tell_ids(mirror: MirrorMaker1, ids: ClusterIds) -> None:
    for source, cluster_id in zip(mirror.sources, ids.sources, strict=True):
        messages.print(f"from {cluster_id}: {source.file}")
    messages.print(f"into {ids.target}: {mirror.target.file}")


def _write_privately(file: Path, text: str) -> None:
    """Write a new file that only its owner may read.

    Raises:
        ConfigError: the file exists already, or cannot be written.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        advice = (
            "Name another file, or delete this one." if isinstance(error, FileExistsError) else ""
        )
        raise ConfigError(
            str(file), "file", f"cannot be written: {error.strerror}.", advice=advice
        ) from None
    with os.fdopen(descriptor, "w", encoding="latin-1") as opened:
        opened.write(text)
