"""Which jars belong together, each with its checksum, so that nothing has to be resolved or trusted.

``checksums/{name}.sha256`` has a line for each jar, as ``sha256sum`` writes it: the SHA-256 and the
path in a Maven repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from kafka_sandbox.errors import SandboxError

FOLDER = Path(__file__).parent / "checksums"


def file_name(name: str) -> str:
    """The file in which the jars called ``name`` are."""
    return f"{name}.sha256"


def pinned(name: str, modules: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The SHA-256 of each jar by its path; nothing if the file is absent or lacks one of the modules.

    Args:
        name: what the jars are called together.
        modules: organisation, name and version of each that is asked for.
    """
    file = FOLDER / file_name(name)
    if not file.exists():
        return {}
    lines = (line.split("  ", 1) for line in file.read_text().splitlines())
    found = {path: checksum for checksum, path in lines}
    asked = {
        f"{org.replace('.', '/')}/{module}/{version}/{module}-{version}.jar"
        for org, module, version in modules
    }
    return found if asked <= found.keys() else {}


def as_text(found: Mapping[str, str]) -> str:
    """The file's content."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(found.items()))


def sha256(file: Path) -> str:
    """The checksum of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def check(path: str, file: Path, expected: str) -> None:
    """Deletes a file that is not the right one.

    Raises:
        SandboxError: it was not.
    """
    found = sha256(file)
    if found != expected:
        file.unlink()
        raise SandboxError(
            f"{path} is not the file that {FOLDER.name} has: its SHA-256 is {found}, and not {expected}. "
            f"Does a proxy or a mirror of the repository answer with something else?"
        )
