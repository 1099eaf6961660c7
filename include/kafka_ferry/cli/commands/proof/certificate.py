"""``ferry certificate``: what runs have proved, as documents that others can check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_ferry.cli.certificate_view import (
    certificate_json,
    certificates_text,
    checked_json,
    held,
    not_looked_at,
    show_certificate,
    show_certificates,
    until_ms,
)
from kafka_ferry.cli.command import Command
from kafka_ferry.cli.commands.backfill import MOMENT_FORMS, moment_ms, window_of
from kafka_ferry.cli.flows import one_flow_within
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption, TimeoutOption, place_of
from kafka_ferry.cli.terminal import out, show_json, warn
from kafka_ferry.clock import moment_text
from kafka_ferry.config.options.certificates import CERTIFICATES_KEY
from kafka_ferry.config.types.values import whole_number
from kafka_ferry.errors import InputError
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.config import Flow

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
        help="A file with the public key that each signature has to be of, in PEM; where the flow had other keys "
        "before, with all of them, the oldest first.",
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
    certificates = [one for one in find_certificates(chosen).all if until_ms(one) > first]
    if as_json:
        show_json([[certificate_json(one) for one in certificates]], several=False)
        return
    if not certificates:
        warn(f"{chosen.name} has no certificate of a record after {since}.")
        return
    show_certificates(chosen, certificates)


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
        show_json([certificate_json(one) | {"ranges": one.ranges()}], several=False)
    elif not output:
        show_certificate(chosen, one)


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
    from kafka_ferry.runs.certificates import (
        faults_of,
        find_certificates,
        read_back,
        require_no_fault,
    )

    chosen = one_flow_within(timeout, config, flow)
    requested = list(map(place_of, places or ()))
    keys = _keys(_pem(public_key), str(public_key)) if public_key else ()
    certificates = find_certificates(chosen)
    faults = list(faults_of(chosen, certificates, keys))
    read = list(read_back(chosen, certificates, requested)) if requested else []
    faults += [f"{one.certificate}, {one.name}: {one.fault}" for one in read if one.fault]
    require_no_fault(chosen, certificates, keys, faults)
    if as_json:
        show_json([checked_json(certificates.all, read, keys)], several=False)
        return
    holding = held(certificates.all, keys)
    ranges = count(sum(one.header.ranges for one in holding), "range")
    out.print(
        f"{certificates_text(holding)} of {chosen.name} hold{'s' * (len(holding) == 1)}: {ranges} in the ledger, and "
        "each certificate follows the one before it"
    )
    for one in read:
        sentence = (
            one.note or f"{chosen.target.alias} holds the records that {one.certificate} names"
        )
        out.print(f"{one.name}: {sentence}")
        for other in one.others:
            warn(f"{one.name}: {other}")
    for note in not_looked_at(certificates.all, keys):
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

    Exits with 7 if any offset of the span has no certificate, or no whole one, and names it.
    """
    from kafka_ferry.certificates import CertificateError
    from kafka_ferry.runs.certificate_export import PAGE, export_certificates

    window = window_of(since, until, ("--from", "--to"))
    chosen = one_flow_within(timeout, config, flow)
    pem = _pem(public_key) if public_key else _own_pem(chosen)
    keys = _keys(pem, str(public_key or CERTIFICATES_KEY))
    done = export_certificates(chosen, window, folder, keys, pem)
    out.print(f"{folder}: {certificates_text(done.certificates)} of {chosen.name}")
    out.print(f"{done.headline(window)}.")
    out.print(f"page:     {folder / PAGE}")
    if done.asked_at < window.until_ms:
        warn(
            f"--to {until} is still to come: records after {moment_text(done.asked_at)} are not in it."
        )
    if done.unsigned:
        warn(done.unsigned_text)
    for name in done.gone:
        warn(f"{name} is gone from the source: which of its records are of these dates is unknown.")
    for copy in done.former:
        warn(copy.text)
    for span in done.missing:
        for start, end in span.missing:
            warn(
                f"No certificate has {'all of ' if span.unread else ''}{span.source} [{start}, {end}): "
                f"{end - start:,} offsets."
            )
        for text in span.unread_texts:
            warn(text)
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
    from kafka_ferry.certificates.chain import intervals
    from kafka_ferry.runs.certificates import find_certificates, restore_certificates

    chosen = one_flow_within(timeout, config, flow)
    keys = _keys(_pem(public_key), str(public_key)) if public_key else ()
    restored = restore_certificates(chosen, find_certificates(chosen), keys)
    for serials, place in (
        (restored.on_target, f"on {chosen.target.alias}"),
        (restored.in_state, "in the state folder"),
    ):
        sentence = (
            f"certificates {intervals(serials)} were put back" if serials else "nothing is missing"
        )
        out.print(f"{place}: {sentence}")
    if not keys:
        warn("Not looked at: signatures, for want of --public-key.")


def _pem(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None


def _keys(pem: bytes, at: str) -> PublicKeys:
    from kafka_ferry.certificates.signature import public_keys

    return public_keys(pem, at)


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
