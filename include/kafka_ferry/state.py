"""A flow's state folder: a local path, or a URI of HDFS or an object store.

It is never the source of truth (the target cluster is): it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import uuid
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import pyarrow as pa
import regex
from pyarrow import fs

from kafka_ferry.errors import StateTooLarge, StateUnreadable, StateUnwritable
from kafka_ferry.local_files import LocalFiles

_LOCAL_SCHEME: Final = "file"
_FINAL: Final = (PermissionError, FileNotFoundError, NotADirectoryError)
_MIB: Final = 1024 * 1024
_PIECE: Final = _MIB
_LARGEST: Final = 1024 * _MIB
_PLAIN: Final = regex.compile(r"(?!\.+\Z)(?!.*\.(?i:jsonl?)\Z)[A-Za-z0-9._-]{1,100}")


def folder_name(name: str) -> str:
    """A folder's name for anything that has one, such as a run: no two have the same.

    A name of up to 100 letters, digits and ``._-`` stays as it is, except ``.`` and ``..``, and one as of the files
    beside the folders (``history.jsonl``), whose place it would take. Of any other one, the name's digest follows what
    can stay, and a ``~``, which no plain name has.
    """
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{regex.sub('[^A-Za-z0-9._-]', '-', name[:80])}~{digest}"


def digest_of(content: str | bytes) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


class _Limits:
    """How many bytes may be read of a file, and still of all together."""

    def __init__(self, of_file: int, left: float = math.inf) -> None:
        self.of_file, self.left = of_file, left


_limits: ContextVar[_Limits | None] = ContextVar("limits", default=None)


@contextlib.contextmanager
def reads_at_most(size: int, together: float = math.inf) -> Iterator[None]:
    """Read no file of more than ``size`` bytes in the body, nor more than so many ``together``.

    One with a hole costs nothing on a disk.
    """
    token = _limits.set(_Limits(size, together))
    try:
        yield
    finally:
        _limits.reset(token)


class StateFolder:
    """Files below one folder; names are relative and use ``/``.

    On this machine, no symbolic link below the folder is followed (``local_files``).

    Args:
        location: a local path, or a URI that Arrow understands (``hdfs://``, ``s3://``, ``gs://``), with the store's
            options after a question mark (``?region=eu-west-1``).
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._local: LocalFiles | None = None
        if "://" in location:
            with self._name_folder():
                self._files, self._root = fs.FileSystem.from_uri(location)
        else:
            self._files, self._root = fs.LocalFileSystem(), str(Path(location).absolute())
        if isinstance(self._files, fs.LocalFileSystem):
            self._read_without_links(self._root)

    def _read_without_links(self, base: str) -> None:
        self._local = LocalFiles(base)
        self._files = fs.PyFileSystem(self._local)

    def folder(self, name: str) -> StateFolder:
        """The folder ``name`` below this one; it need not exist."""
        address, _, query = self._address
        folder = StateFolder(f"{address.rstrip('/')}/{name}" + (f"?{query}" if query else ""))
        if self._local:
            folder._read_without_links(self._local.base)
        return folder

    @property
    def _address(self) -> tuple[str, str, str]:
        """What is before the question mark of a URI, the mark, and the store's options after it."""
        return self.location.partition("?") if "://" in self.location else (self.location, "", "")

    @property
    def local_path(self) -> Path | None:
        """Its path on this machine, None if it is elsewhere."""
        return Path(self._root) if self._local else None

    @property
    def uri(self) -> str:
        """The location for Spark, which looks for a path without a scheme on its default file system.

        Spark has a store's options from its own configuration, not from the URI.
        """
        return f"{_LOCAL_SCHEME}://{self._root}" if self.local_path else self._address[0]

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none.

        Raises:
            StateTooLarge: it is larger than any that a run writes, or more than the caller of ``reads_at_most`` wants.
        """
        try:
            with self._name_folder(), self._files.open_input_stream(self._at(name)) as stream:
                return self._content_of(stream, name)
        except FileNotFoundError:
            return None

    def _content_of(self, stream: pa.NativeFile, name: str) -> bytes:
        limits, pieces, size = _limits.get() or _Limits(_LARGEST), [], 0
        while piece := bytes(stream.read(_PIECE)):
            size += len(piece)
            limits.left -= len(piece)
            if size > limits.of_file or limits.left < 0:
                raise StateTooLarge(
                    f"{name} in {self.location} has more than {limits.of_file // _MIB:,} MiB."
                    if size > limits.of_file
                    else f"The files in {self.location} have too many bytes together, up to {name}.",
                    advice="No run has written it. Find out who writes there, and delete it.",
                )
            pieces.append(piece)
        return b"".join(pieces)

    def write(self, name: str, content: bytes | str) -> None:
        """Write a file atomically: a reader sees the old content or the new one, never a part.

        On a local path that holds even after a power cut; elsewhere it is as durable as the store.

        Raises:
            StateUnwritable: there is no room, no right, or no answer.
        """
        data = content.encode() if isinstance(content, str) else content
        try:
            self._write(name, data)
        except OSError as error:
            raise StateUnwritable(
                f"{self.location} cannot be written to: {error}",
                transient=not isinstance(error, _FINAL) and error.errno != errno.EROFS,
            ) from error

    def _write(self, name: str, data: bytes) -> None:
        target = self._at(name)
        self._files.create_dir(target.rpartition("/")[0], recursive=True)
        unfinished = f"{target}.{uuid.uuid4().hex}.part"
        with self._files.open_output_stream(unfinished) as stream:
            stream.write(data)
        if self._local:
            self._local.flush(unfinished)
        self._files.move(unfinished, target)

    def links(self) -> list[str]:
        """The symbolic links in this folder and below it, where it is on this machine: other programs follow them."""
        return self._local.links(self._root) if self._local else []

    def empty_files(self) -> list[str]:
        """The empty files in this folder and below it."""
        return [name for name, info in self._below() if not info.size]

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Changes with the file: its time in nanoseconds and its size; None if there is no file."""
        with self._name_folder():
            info = self._files.get_file_info(self._at(name))
        return _stamp(info) if info.type == fs.FileType.File else None

    def stamps(self, suffix: str = "") -> dict[str, tuple[int, int]]:
        """The stamp of each file directly in this folder that ends in ``suffix``, by name; asks once for all."""
        files = (f for f in self._content() if f.type == fs.FileType.File)
        return {f.base_name: _stamp(f) for f in files if f.base_name.endswith(suffix)}

    def names(self, suffix: str = "") -> list[str]:
        """The files directly in this folder that end in ``suffix``, sorted; none if it does not exist."""
        return sorted(self.stamps(suffix))

    def folders(self) -> list[str]:
        """The folders directly in this one, sorted; none if it does not exist."""
        return sorted(f.base_name for f in self._content() if f.type == fs.FileType.Directory)

    def folders_with(self, name: str) -> list[str]:
        """The folders directly in this one that have a file ``name``, by the time of that file."""
        stamps = {folder: self.stamp(f"{folder}/{name}") for folder in self.folders()}
        stamped = {folder: stamp for folder, stamp in stamps.items() if stamp}
        return sorted(stamped, key=lambda folder: stamped[folder])

    def changes(self) -> dict[str, int]:
        """All files in this folder and below it, each with its time of change, in milliseconds since 1970.

        Names have ``/`` between folders; there are none if it does not exist.
        """
        return {name: (info.mtime_ns or 0) // 1_000_000 for name, info in self._below()}

    def delete_folder(self, name: str) -> None:
        """Delete a folder below this one with all its content; does nothing if it does not exist."""
        try:
            with self._name_folder():
                self._files.delete_dir(self._at(name))
        except FileNotFoundError:
            return

    def is_empty(self) -> bool:
        """Whether it holds no file at any depth, or does not exist."""
        return not self._content()

    def copy_to(self, other: StateFolder) -> None:
        """Copy all files in this folder and below it.

        Raises:
            FileNotFoundError: if one of them is deleted meanwhile.
        """
        with self._name_folder():
            fs.copy_files(
                self._root,
                other._root,
                source_filesystem=self._files,
                destination_filesystem=other._files,
            )

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are gone already are ignored."""
        for name in names:
            try:
                with self._name_folder():
                    self._files.delete_file(self._at(name))
            except FileNotFoundError:
                continue

    def open_parquet(self, name: str) -> pa.NativeFile:
        """A file opened for random access reading."""
        with self._name_folder():
            return self._files.open_input_file(self._at(name))

    def _content(self, *, recursive: bool = False) -> list[fs.FileInfo]:
        """What is in this folder; nothing if it does not exist."""
        selector = fs.FileSelector(self._root, allow_not_found=True, recursive=recursive)
        with self._name_folder():
            return list(self._files.get_file_info(selector))

    @contextlib.contextmanager
    def _name_folder(self) -> Iterator[None]:
        """Name the folder in what a store raises; on this machine an error names its file itself.

        Raises:
            StateUnreadable: the store does not answer, or refuses to; or it is no folder, or no one's to read.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except (NotADirectoryError, PermissionError) as error:
            raise StateUnreadable(
                f"{self.location} cannot be read: {error}.",
                advice="state.dir must be a folder that this user may read and write.",
            ) from error
        except (OSError, pa.ArrowException) as error:
            if self._local:
                raise
            raise StateUnreadable(
                f"{self._address[0]} cannot be read: {error}",
                advice="Is the store of state.dir up, and may this user read and write there? The target decides what "
                "is left to do: run it again once the store is back.",
            ) from error

    def _below(self) -> Iterator[tuple[str, fs.FileInfo]]:
        """All files in this folder and below it."""
        root = len(self._root.rstrip("/")) + 1
        for info in self._content(recursive=True):
            if info.type == fs.FileType.File:
                yield info.path[root:], info

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def _stamp(info: fs.FileInfo) -> tuple[int, int]:
    return info.mtime_ns or 0, info.size
