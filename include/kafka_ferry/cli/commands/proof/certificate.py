"""``ferry certificate``: what runs have proved, as documents that others can check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_ferry.cli.flows import one_flow
from kafka_ferry.cli.options import ConfigOption, JsonOption, OneFlowOption, place_of
from kafka_ferry.cli.terminal import out, show_json, show_table, warn
from kafka_ferry.clock import moment_text
from kafka_ferry.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from kafka_ferry.certificates import Certificate

app = typer.Typer(
    no_args_is_help=True, help="List, show and check the certificates of what runs have proved."
)

SerialArgument = Annotated[
    int | None, typer.Argument(min=1, help="Which one; by default the newest.", metavar="SERIAL")
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
FileOption = Annotated[
    Path | None,
    typer.Option("--output", dir_okay=False, help="Write the certificate's bytes to this file."),
]


@app.command("list")
def list_(config: ConfigOption, flow: OneFlowOption = None, as_json: JsonOption = False) -> None:
    """List a flow's certificates."""
    from kafka_ferry.runs.certificates import find_certificates

    certificates = find_certificates(one_flow(config, flow)).all
    if as_json:
        show_json([[_told(one) for one in certificates]], several=False)
        return
    columns = ("SERIAL", "ISSUED", "RUN", "RANGES", "RECORDS", "SIGNED", "HASH")
    show_table(columns, map(_row, certificates), numbers=("SERIAL", "RANGES", "RECORDS"))


def _row(one: Certificate) -> tuple[object, ...]:
    header, is_signed = one.header, "yes" if one.signature else "no"
    counts = f"{header.ranges:,}", f"{header.records:,}"
    issued = header.serial, moment_text(header.issued_at), header.run
    return (*issued, *counts, is_signed, one.digest[:16])


@app.command()
def show(
    config: ConfigOption,
    serial: SerialArgument = None,
    flow: OneFlowOption = None,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a certificate says, or write it to a file."""
    from kafka_ferry.runs.certificates import find_certificates, of_serial

    one = of_serial(find_certificates(one_flow(config, flow)).all, serial)
    if output:
        try:
            output.write_bytes(one.content())
        except OSError as error:
            raise InputError(f"{output} cannot be written: {error.strerror}") from None
    if as_json:
        show_json([_told(one) | {"ranges": one.ranges()}], several=False)
    elif not output:
        _show(one)


@app.command()
def check(
    config: ConfigOption,
    flow: OneFlowOption = None,
    public_key: PublicKeyOption = None,
    places: ReadBackOption = None,
) -> None:
    """Check a flow's certificates: their bytes, their chain, their signatures, and that the ledger agrees.

    Exits with 7 if anything is wrong, and names it.
    """
    from kafka_ferry.certificates import CertificateError
    from kafka_ferry.runs.certificates import faults_of, find_certificates, read_back

    chosen, asked = one_flow(config, flow), [place_of(text) for text in places or ()]
    key = _public_key(public_key) if public_key else None
    found = find_certificates(chosen)
    faults = list(faults_of(chosen, found, key))
    read = list(read_back(chosen, found, asked)) if asked else []
    if faults := [
        *faults,
        *(f"{it.certificate}, {it.name}: {it.fault}" for it in read if it.fault),
    ]:
        raise CertificateError(f"The certificates of {chosen.name} do not hold:", details=faults)
    first, last = (found.all[at].header for at in (0, -1))
    ranges = sum(one.header.ranges for one in found.all)
    out.print(
        f"certificates {first.serial} to {last.serial} of {chosen.name} hold: their {ranges:,} ranges are in "
        "the ledger, and each certificate follows the one before it"
    )
    for one in read:
        said = one.note or f"{chosen.target.alias} holds the records that {one.certificate} names"
        out.print(f"{one.name}: {said}")
    for note in _not_looked_at(found.all, key):
        warn(note)


@app.command()
def restore(
    config: ConfigOption, flow: OneFlowOption = None, public_key: PublicKeyOption = None
) -> None:
    """Put certificates back that the target's topic or the state folder lacks, from the other one.

    Exits with 7 if one of those that are there does not hold, and changes nothing then.
    """
    from kafka_ferry.runs.certificates import find_certificates, restore_certificates

    chosen = one_flow(config, flow)
    key = _public_key(public_key) if public_key else None
    restored = restore_certificates(chosen, find_certificates(chosen), key)
    for serials, place in (
        (restored.on_target, f"on {chosen.target.alias}"),
        (restored.in_state, "in the state folder"),
    ):
        said = (
            f"certificates {_intervals(serials)} were put back" if serials else "nothing is missing"
        )
        out.print(f"{place}: {said}")
    if key is None:
        warn("Not looked at: signatures, for want of --public-key.")


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
    from kafka_ferry.certificates.chain import pruned_until

    notes, first = [], certificates[0].header.serial - 1
    if pruned := pruned_until(certificates, key):
        notes.append(
            f"Pruned until certificate {pruned.through}, which had the hash {pruned.hash}."
        )
    elif first:
        notes.append(f"Not looked at: the certificates 1 to {first}, which are not here.")
    if key is None:
        notes.append("Not looked at: signatures, for want of --public-key.")
    return notes


def _public_key(file: Path) -> Ed25519PublicKey:
    from kafka_ferry.certificates.signature import public_key

    try:
        return public_key(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None


def _told(one: Certificate) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(one.line)
    signature = {"signature": one.signature.model_dump()} if one.signature else {}
    return told | {"hash": one.digest} | signature


def _show(one: Certificate) -> None:
    header = one.header
    lines = {
        "certificate": f"{header.serial}, {one.digest}",
        "follows": header.previous or "nothing",
        "signed by": one.signature.key if one.signature else "no key",
        "flow": header.flow,
        "run": header.run,
        "issued": moment_text(header.issued_at),
        "source": f"{header.source.alias}, cluster {header.source.cluster_id}",
        "target": f"{header.target.alias}, cluster {header.target.cluster_id}",
        "proved": f"{header.records:,} records in {header.ranges:,} ranges of {header.source_offsets:,} offsets",
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
