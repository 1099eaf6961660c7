"""A flow's certificates in its state folder: copies of those on the target, one file each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_ferry.certificates import Certificate, CertificateError, read_certificate
from kafka_ferry.state import StateFolder

_FOLDER: Final = "certificates"
_SUFFIX: Final = ".jsonl"


def save_file(state: StateFolder, certificate: Certificate) -> None:
    """Store a certificate in a flow's state folder."""
    state.folder(_FOLDER).write(_name(certificate.header.serial), certificate.content())


def newest_file(state: StateFolder) -> Certificate | None:
    """The newest certificate in a flow's state folder, None if there is none.

    Raises:
        CertificateError: if the file is not a certificate, or that of another serial than its name says.
    """
    folder = state.folder(_FOLDER)
    names = folder.names(_SUFFIX)
    return _read(folder, names[-1]) if names else None


def certificate_files(state: StateFolder) -> list[Certificate]:
    """All certificates in a flow's state folder, by their serials; errors as of ``newest_file``."""
    folder = state.folder(_FOLDER)
    return [_read(folder, name) for name in folder.names(_SUFFIX)]


def file_serials(state: StateFolder) -> list[int]:
    """The serials of the certificates in a flow's state folder, ascending."""
    names = (name.removesuffix(_SUFFIX) for name in state.folder(_FOLDER).names(_SUFFIX))
    return [int(name) for name in names if name.isdecimal()]


def one_file(state: StateFolder, serial: int) -> Certificate:
    """The certificate with a serial in a flow's state folder; errors as of ``newest_file``."""
    return _read(state.folder(_FOLDER), _name(serial))


def delete_files(state: StateFolder, serials: Iterable[int]) -> None:
    """Delete certificates by their serials, the oldest first."""
    state.folder(_FOLDER).delete(map(_name, sorted(serials)))


def _name(serial: int) -> str:
    return f"{serial:08d}{_SUFFIX}"


def _read(folder: StateFolder, name: str) -> Certificate:
    at = f"{folder.location}/{name}"
    certificate = read_certificate(folder.read(name) or b"", at)
    place = _name(certificate.header.serial)
    if name != place:
        raise CertificateError(
            f"{at} holds {certificate.name}, whose place is {place}",
            advice="Delete this file, or give it its name back: ferry certificate check reads those on "
            "the target too, and says which one is missing.",
        )
    return certificate
