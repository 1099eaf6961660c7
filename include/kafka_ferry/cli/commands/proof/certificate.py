"""``ferry certificate``: what runs have proved, as documents that others can check."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_ferry.cli.command import Command
from kafka_ferry.cli.commands.backfill import MOMENT_FORMS, moment_ms
from kafka_ferry.cli.flows import one_flow_within
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption, TimeoutOption, place_of
from kafka_ferry.cli.terminal import out, show_json, show_table, warn
from kafka_ferry.clock import moment_text
from kafka_ferry.config.options.certificates import CERTIFICATES_KEY
from kafka_ferry.config.types.values import whole_number
from kafka_ferry.errors import InputError
from kafka_ferry.plan import policy_of
from kafka_ferry.verify.counts import and_heartbeats, count, records_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from kafka_ferry.certificates import Certificate
    from kafka_ferry.config import Flow
    from kafka_ferry.runs.certificates import ReadBack

app = typer.Typer(
    no_args_is_help=True, help="List, show and check the certificates of what runs have proved."
)


def _serial(text: object) -> int:
    number = whole_number(str(text), least=1, most=2**63 - 1)
    if number is None:
        raise typer.BadParameter(
            f"must be a whole number from 1 on, and not {str(text)!r}; ferry certificate list shows them"
        )
    return number


SerialArgument = Annotated[
    int | None,
    typer.Argument(parser=_serial, help="Which one; by default the newest.", metavar="SERIAL"),
]
PublicKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--public-key",
        exists=True,
        dir_okay=False,
        help="The public key that each signature has to be of, in PEM.",
    ),
]
ReadBackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--read-back",
        metavar="TOPIC-PARTITION:OFFSET",
        help="Also read the range with this offset of the source back from the target, and compare its records with "
        "what its certificate says. May be repeated.",
    ),
]
CheckJsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON for programs, if all of it holds; errors stay text."),
]
ListSinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        help=f"Only those that may have records that were written after it: {MOMENT_FORMS}.",
    ),
]
FolderArgument = Annotated[Path, typer.Argument(help="A new folder.", metavar="FOLDER")]
FromOption = Annotated[
    str, typer.Option("--from", help=f"The first timestamp of the records: {MOMENT_FORMS}.")
]
ToOption = Annotated[str, typer.Option("--to", help="The first timestamp after them.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--output", dir_okay=False, help="Write the certificate's bytes to this file."),
]


@app.command("list", cls=Command)
def list_(
    config: ConfigOption,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    since: ListSinceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a flow's certificates, and the records that they are about."""
    from kafka_ferry.runs.certificates import find_certificates

    first = moment_ms("--since", since) if since else 0
    chosen = one_flow_within(timeout, config, flow)
    certificates = [one for one in find_certificates(chosen).all if _until_ms(one) > first]
    if as_json:
        show_json([[_as_json(one) for one in certificates]], several=False)
        return
    if not certificates:
        warn(f"{chosen.name} has no certificate of a record after {since}.")
        return
    columns = ("SERIAL", "ISSUED", "RUN", "RANGES", "RECORDS", "FROM", "UNTIL", "SIGNED", "HASH")
    show_table(
        columns,
        (_row(chosen, one) for one in certificates),
        numbers=("SERIAL", "RANGES", "RECORDS"),
    )


def _row(flow: Flow, one: Certificate) -> tuple[object, ...]:
    header, is_signed = one.header, "yes" if one.signature else "no"
    beats = _heartbeats(flow, one)
    counts = f"{header.ranges:,}", f"{header.records - beats:,}{and_heartbeats(beats)}"
    issued = header.serial, moment_text(header.issued_at), header.run
    since = moment_text(header.window[0]) if header.window else None
    return (*issued, *counts, since, moment_text(_until_ms(one)), is_signed, one.digest[:16])


def _heartbeats(flow: Flow, one: Certificate) -> int:
    """How many of its records are in topics of heartbeats."""
    is_heartbeats_topic = policy_of(flow).is_heartbeats_topic
    # Of thousands of lines, those of other topics are not parsed.
    some = replace(one, range_lines=[line for line in one.range_lines if b"heartbeats" in line])
    return sum(row["read_back"] for row in some.ranges() if is_heartbeats_topic(row["topic"]))


def _until_ms(one: Certificate) -> int:
    """Until when its records were written: the end of a backfill's window, or when the run was planned."""
    window, planned_at = one.header.window, one.header.planned_at
    return min(window[1], planned_at) if window else planned_at


@app.command(cls=Command)
def show(
    config: ConfigOption,
    serial: SerialArgument = None,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a certificate says, or write it to a file."""
    from kafka_ferry.runs.certificates import find_certificates, of_serial

    chosen = one_flow_within(timeout, config, flow)
    one = of_serial(find_certificates(chosen).all, serial)
    if output:
        try:
            output.write_bytes(one.content())
        except OSError as error:
            raise InputError(f"{output} cannot be written: {error.strerror}") from None
    if as_json:
        show_json([_as_json(one) | {"ranges": one.ranges()}], several=False)
    elif not output:
        _show(chosen, one)


@app.command(cls=Command)
def check(
    config: ConfigOption,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    public_key: PublicKeyOption = None,
    places: ReadBackOption = None,
    *,
    as_json: CheckJsonOption = False,
) -> None:
    """Check a flow's certificates: their bytes, their chain, their signatures, and that the ledger agrees.

    Exits with 7 if anything is wrong, and names it.
    """
    from kafka_ferry.certificates import CertificateError
    from kafka_ferry.runs.certificates import faults_of, find_certificates, read_back

    chosen, requested = (
        one_flow_within(timeout, config, flow),
        [place_of(text) for text in places or ()],
    )
    key = _public_key(public_key) if public_key else None
    certificates = find_certificates(chosen)
    faults = list(faults_of(chosen, certificates, key))
    read = list(read_back(chosen, certificates, requested)) if requested else []
    if faults := [
        *faults,
        *(
            f"{result.certificate}, {result.name}: {result.fault}"
            for result in read
            if result.fault
        ),
    ]:
        raise CertificateError(f"The certificates of {chosen.name} do not hold:", details=faults)
    if as_json:
        show_json([_check(certificates.all, read, key)], several=False)
        return
    first, last = (certificates.all[at].header for at in (0, -1))
    ranges = sum(one.header.ranges for one in certificates.all)
    out.print(
        f"certificates {first.serial} to {last.serial} of {chosen.name} hold: their {ranges:,} ranges are in "
        "the ledger, and each certificate follows the one before it"
    )
    for one in read:
        sentence = (
            one.note or f"{chosen.target.alias} holds the records that {one.certificate} names"
        )
        out.print(f"{one.name}: {sentence}")
    for note in _not_looked_at(certificates.all, key):
        warn(note)


@app.command(cls=Command)
def export(
    config: ConfigOption,
    folder: FolderArgument,
    since: FromOption,
    until: ToOption,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    public_key: PublicKeyOption = None,
) -> None:
    """Write a folder to hand over: certificates of a span, the public key, the checker, and a page that explains them.

    Exits with 7 if any offset of the span has no certificate, and names it.
    """
    from kafka_ferry.certificates import CertificateError
    from kafka_ferry.model import Window
    from kafka_ferry.runs.certificate_export import PAGE, export_certificates

    first, after = moment_ms("--from", since), moment_ms("--to", until)
    if first >= after:
        raise InputError(
            f"--to {until} is not after --from {since}.",
            advice="The span includes --from and excludes --to.",
        )
    chosen = one_flow_within(timeout, config, flow)
    pem = _pem(public_key) if public_key else _own_pem(chosen)
    key = _key(pem, str(public_key or CERTIFICATES_KEY))
    done = export_certificates(chosen, Window(first, after), folder, key, pem)
    serials = [one.header.serial for one in done.certificates]
    out.print(f"{folder}: certificates {serials[0]} to {serials[-1]} of {chosen.name}")
    out.print(f"page:     {folder / PAGE}")
    if done.asked_at < after:
        warn(
            f"--to {until} is still to come: records after {moment_text(done.asked_at)} are not in it."
        )
    for name in done.gone:
        warn(f"{name} is gone from the source: which of its records are of these dates is unknown.")
    for span in done.missing:
        for start, end in span.missing:
            warn(f"No certificate has {span.source} [{start}, {end}): {end - start:,} offsets.")
    if done.missing:
        warn(
            "`ferry run --verify-all` certifies all that was copied; then export into a new folder."
        )
        raise typer.Exit(CertificateError.exit_code)


@app.command(cls=Command)
def restore(
    config: ConfigOption,
    flow: OneFlowOption = None,
    timeout: TimeoutOption = None,
    public_key: PublicKeyOption = None,
) -> None:
    """Put certificates back that the target's topic or the state folder lacks, from the other one.

    Exits with 7 if one of those that are there does not hold, and changes nothing then.
    """
    from kafka_ferry.runs.certificates import find_certificates, restore_certificates

    chosen = one_flow_within(timeout, config, flow)
    key = _public_key(public_key) if public_key else None
    restored = restore_certificates(chosen, find_certificates(chosen), key)
    for serials, place in (
        (restored.on_target, f"on {chosen.target.alias}"),
        (restored.in_state, "in the state folder"),
    ):
        sentence = (
            f"certificates {_intervals(serials)} were put back" if serials else "nothing is missing"
        )
        out.print(f"{place}: {sentence}")
    if key is None:
        warn("Not looked at: signatures, for want of --public-key.")


def _check(
    certificates: Sequence[Certificate], read: Sequence[ReadBack], key: Ed25519PublicKey | None
) -> dict[str, Any]:
    """What was checked and holds."""
    headers = [one.header for one in certificates]
    return {
        "flow": headers[0].flow,
        "first": headers[0].serial,
        "last": headers[-1].serial,
        "ranges": sum(header.ranges for header in headers),
        "signatures": key is not None,
        "read_back": [asdict(one) for one in read],
        "notes": _not_looked_at([*certificates], key),
    }


def _intervals(serials: Sequence[int]) -> str:
    """Ascending serials, such as ``1 to 3, 5``."""
    ends: list[list[int]] = []
    for serial in serials:
        if ends and ends[-1][1] == serial - 1:
            ends[-1][1] = serial
        else:
            ends.append([serial, serial])
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ends)


def _not_looked_at(certificates: list[Certificate], key: Ed25519PublicKey | None) -> list[str]:
    from kafka_ferry.certificates.chain import pruning_of

    notes, first = [], certificates[0].header.serial - 1
    if pruned := pruning_of(certificates, key):
        notes.append(
            f"Pruned until certificate {pruned.through}, which had the hash {pruned.hash}."
        )
    elif first:
        notes.append(f"Not looked at: the certificates 1 to {first}, which are not here.")
    if key is None:
        notes.append("Not looked at: signatures, for want of --public-key.")
    return notes


def _public_key(file: Path) -> Ed25519PublicKey:
    return _key(_pem(file), str(file))


def _pem(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None


def _key(pem: bytes, at: str) -> Ed25519PublicKey:
    from kafka_ferry.certificates.signature import public_key

    return public_key(pem, at)


def _own_pem(flow: Flow) -> bytes:
    """The public key of the key that the flow signs with."""
    from kafka_ferry.certificates.signature import public_pem

    reference = flow.certificates_key
    if not reference:
        raise InputError(
            f"{flow.name} signs no certificate, so their author cannot be checked.",
            advice=f"Set {CERTIFICATES_KEY} and prove it again with `ferry run --verify-all`, or name the key with "
            "--public-key.",
        )
    pem = flow.target.resolve_value(CERTIFICATES_KEY, reference)
    return public_pem(pem, f"{flow.file}: {CERTIFICATES_KEY} ({reference})")


def _as_json(one: Certificate) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(one.line)
    signature = {"signature": one.signature.model_dump()} if one.signature else {}
    return document | {"hash": one.digest} | signature


def _show(flow: Flow, one: Certificate) -> None:
    header = one.header
    records = records_text(header.records, _heartbeats(flow, one))
    lines = {
        "certificate": f"{header.serial}, {one.digest}",
        "follows": header.previous or "nothing",
        "signed by": one.signature.key if one.signature else "no key",
        "flow": header.flow,
        "run": header.run,
        "issued": moment_text(header.issued_at),
        "source": f"{header.source.alias}, cluster {header.source.cluster_id}",
        "target": f"{header.target.alias}, cluster {header.target.cluster_id}",
        "proved": f"{records} in {count(header.ranges, 'range')} of {count(header.source_offsets, 'offset')}",
        "without a record": ", ".join(f"{n:,} {why}" for why, n in header.reasons.items())
        or "none",
    }
    width = max(map(len, lines)) + 2
    for name, text in lines.items():
        out.print(f"{name + ':':<{width}}{text}")
    columns = ("TOPIC", "PARTITION", "START", "END", "RECORDS", "REMOTE TOPIC", "DIGEST")
    names = ("topic", "partition", "start", "end", "read_back", "remote_topic", "digest")
    rows = ([row.get(name, "") for name in names] for row in one.ranges())
    show_table(columns, rows, numbers=columns[1:5])
