"""The format of a certificate: lines of JSON in which every byte counts. docs/certificates.md describes it.

The first line, the header, says what was proved and holds the Merkle root of the range lines, which follow. The
header's SHA-256 is the certificate's hash; the next certificate names it. A last line may sign the header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kafka_ferry.as_json import SMALL, FirstErrorOnly, read_json, why_wrong
from kafka_ferry.certificates.merkle import merkle_root
from kafka_ferry.certificates.signature import Signature, key_id, sign_message
from kafka_ferry.errors import FerryError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Final = "kafka-ferry-certificate"
VERSION: Final = 1
_SIGNATURE: Final = b'{"signature":'


class CertificateError(FerryError):
    """A certificate that is not what it has to be; the message names it."""

    exit_code = 7


class _Model(FirstErrorOnly, BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class CertifiedCluster(_Model):
    """One side of the flow: its alias and Kafka's id of the cluster."""

    alias: str
    cluster_id: str


class Pruned(_Model):
    """Until where a chain was pruned, as ``certificates.keep.*`` says.

    Attributes:
        through: the serial of the last certificate that is no longer kept; none before it is.
        hash: its hash, which the certificate after it names as ``previous``.
    """

    through: int = Field(gt=0)
    hash: str = Field(pattern="^[0-9a-f]{64}$")


class Header(_Model):
    """The fields of a certificate's first line.

    Attributes:
        format: always ``kafka-ferry-certificate``.
        version: of the format.
        serial: 1 for a flow's first certificate, then one more each.
        previous: the hash of the certificate before it, "" for the first one.
        pruned: until where the chain before it is no longer kept; None where all of it is.
        flow: the flow.
        run: the run that has proved it.
        window: of a backfill, the timestamps ``[since, until)`` of its records, in milliseconds since 1970.
        planned_at: when the run was planned, in milliseconds since 1970.
        approved_by: who has approved the plan; None where no approval was asked for.
        issued_at: when the certificate was made, in milliseconds since 1970.
        ferry: the version of Kafka Ferry.
        source: the cluster that was copied from.
        target: the cluster that was copied to.
        rules: what the flow copies: its options by their names, as text.
        checks: the checks that were made, each with ``passed`` or how it failed without failing the run.
        ranges: how many ranges follow.
        source_offsets: how many source offsets they have.
        records: how many records of them were read back from the target.
        reasons: source offsets without a record on the target, by reason.
        witnessed: how many of these were looked up on the source, which had no record there either.
        root: the Merkle root over the range lines.
        key: ``key_id`` of the key that signs it; None where none does. So no signature can be taken away unseen.
    """

    format: Literal["kafka-ferry-certificate"] = FORMAT
    version: Literal[1] = VERSION
    serial: int = Field(gt=0)
    previous: str = Field(pattern="^([0-9a-f]{64})?$")
    pruned: Pruned | None = None
    flow: str
    run: str
    window: tuple[int, int] | None = None
    planned_at: int
    approved_by: str | None = None
    issued_at: int
    ferry: str
    source: CertifiedCluster
    target: CertifiedCluster
    rules: Mapping[str, str]
    checks: Mapping[str, str]
    ranges: int = Field(gt=0)
    source_offsets: int
    records: int
    reasons: Mapping[str, int]
    witnessed: int = 0
    root: str = Field(pattern="^[0-9a-f]{64}$")
    key: str | None = None


@dataclass(frozen=True)
class Certificate:
    """A certificate, byte by byte.

    Attributes:
        line: the header's line, without its line break.
        range_lines: a line for each range, as of the header.
        signature: of ``line``; None if it is not signed.
        at: where it was read, for errors.
    """

    line: bytes
    range_lines: Sequence[bytes]
    signature: Signature | None = None
    at: str = "a new certificate"

    @classmethod
    def issue(
        cls, header: Header, range_lines: Sequence[bytes], key: Ed25519PrivateKey | None
    ) -> Certificate:
        """The certificate with these fields, signed where there is a key."""
        signed_by = {"key": key_id(key.public_key())} if key else {}
        line = as_line(header.model_dump(mode="json", exclude_none=True) | signed_by)
        return cls(line, range_lines, sign_message(key, line) if key else None)

    @cached_property
    def header(self) -> Header:
        """The fields of the first line.

        Raises:
            CertificateError: if it is no header of a version that this release knows.
        """
        try:
            fields = read_json(self.line)
            needed = (name for name, it in Header.model_fields.items() if it.is_required())
            lacks = next((name for name in needed if name not in fields), None)
            if lacks and len(self.line) > SMALL:
                raise ValueError(f"{lacks}: Field required")
            return Header.model_validate_json(self.line)
        except (TypeError, ValueError) as error:
            why = why_wrong(error) if isinstance(error, ValidationError) else str(error)
            raise CertificateError(f"{self.at} is not a certificate: {why}") from None

    @property
    def digest(self) -> str:
        """Its hash: SHA-256 of the first line, 64 hexadecimal digits."""
        return hashlib.sha256(self.line).hexdigest()

    @property
    def name(self) -> str:
        """How a message calls it."""
        return f"certificate {self.header.serial} of {self.header.flow}"

    def ranges(self) -> list[dict[str, Any]]:
        """The ranges' fields.

        Raises:
            CertificateError: if a line is not an object of JSON.
        """
        try:
            rows = [read_json(line) for line in self.range_lines]
        except ValueError:
            rows = [None]
        if not all(isinstance(row, dict) for row in rows):
            raise CertificateError(f"{self.at} has a range line that is not an object of JSON.")
        return rows

    def seal_lines(self) -> bytes:
        """The header, and the signature if there is one: what has to be stored beside the ranges."""
        lines = [self.line, *self._signature_lines()]
        return b"".join(line + b"\n" for line in lines)

    def content(self) -> bytes:
        """The bytes of its file."""
        lines = [self.line, *self.range_lines, *self._signature_lines()]
        return b"".join(line + b"\n" for line in lines)

    def _signature_lines(self) -> list[bytes]:
        return [as_line({"signature": self.signature.model_dump()})] if self.signature else []


def is_without_copy(row: Mapping[str, Any]) -> bool:
    """Whether the remote topic of a range was deleted or given up before: nothing of its records was looked at."""
    return bool(row.get("absent", {}).get("gone"))


def count_unread(row: Mapping[str, Any]) -> int:
    """How many copied records of a range were gone before they were read back: expired, or accepted as missing."""
    absent = row.get("absent", {})
    return int(absent.get("expired", 0)) + int(absent.get("accepted", 0))


def as_line(fields: Mapping[str, Any]) -> bytes:
    """An object as one line of JSON in UTF-8, without a line break."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def read_certificate(content: bytes, at: str) -> Certificate:
    """A certificate from the bytes of its file.

    Args:
        content: the bytes.
        at: where they came from, for errors.

    Raises:
        CertificateError: if they are no certificate. What it says is not checked here: see ``chain``.
    """
    line, *rest = content.split(b"\n")
    if not rest or rest.pop():
        raise CertificateError(f"{at} is not a certificate: it does not end with a whole line.")
    signature = None
    if rest and rest[-1].startswith(_SIGNATURE):
        signature = _signature(rest.pop(), at)
    certificate = Certificate(line, rest, signature, at)
    _ = certificate.header
    return certificate


def _signature(line: bytes, at: str) -> Signature:
    try:
        signature = Signature.model_validate(read_json(line)["signature"])
        if as_line({"signature": signature.model_dump()}) == line:
            return signature
    except (ValueError, ValidationError):
        pass
    raise CertificateError(f"{at} has a last line that is not a signature.")


def root_of(certificate: Certificate) -> str:
    """The Merkle root of a certificate's range lines as they are."""
    return merkle_root(certificate.range_lines)
