"""The files of this machine below one folder, reached without following a symbolic link.

A user who may write in a state folder could otherwise let a link there name any file that its readers may read, such as
Airflow's configuration, and any that its writers may write.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from kafka_ferry.errors import FerryError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A pipe is opened at once, and then refused: it may never get a writer.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class LinkRefused(FerryError):
    """A part of a path in a state folder is a symbolic link, or leads out of the folder."""


class LocalFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """A file system of Arrow's, of the files below ``base``: each path is what it names.

    a. No part of a path below ``base`` may be a link, at the moment at which it is used: each part is opened by
       itself, in the one before.
    b. A link is neither a file nor a folder: listings leave it out. Writing and deleting concern the link itself.
    c. ``base`` itself may be a link: it is what the flow's file says.

    Args:
        base: an absolute path; made, for its owner only, when the first folder in it is made.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def get_type_name(self) -> str:
        """Arrow's name of the kind."""
        return "local"

    def normalize_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """A file, for reading.

        Raises:
            FileNotFoundError: there is none, or it is no regular file.
            LinkRefused: a part of its path is a link.
        """
        with self._parent(path) as (folder, name):
            opened = self._open(path, name, _FILE, folder)
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise FileNotFoundError(f"{path} is not a regular file")
            return pa.OSFile(f"/dev/fd/{opened}")
        finally:
            os.close(opened)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A file, for reading at any place; errors as for ``open_input_stream``."""
        return self.open_input_stream(path)

    def open_output_stream(self, path: str, metadata: object = None) -> pa.NativeFile:  # noqa: ARG002
        """A new file, for writing; what had its name before keeps its content.

        Raises:
            LinkRefused: its folder is not where it seems.
        """
        with self._parent(path) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return pa.PythonFile(os.fdopen(os.open(name, _NEW, 0o666, dir_fd=folder), "wb"), "w")

    def open_append_stream(self, path: str, metadata: object = None) -> pa.NativeFile:
        """Not supported: no file of a state folder grows."""
        raise NotImplementedError(path, metadata)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Kind, time and size of each; a path through a link names nothing."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """What is in a folder, without links."""
        try:
            with self._folder(selector.base_dir) as folder:
                return list(_content(selector.base_dir, folder, recursive=selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise

    def links(self, path: str) -> list[str]:
        """The links in a folder and below it, for what would follow them; none if it does not exist."""
        try:
            with self._folder(path) as folder:
                return sorted(_links(path, folder))
        except FileNotFoundError:
            return []

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: ARG002
        """Make a folder and those above it."""
        with self._folder(path, make=True):
            return

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all its content; of links in it, only themselves."""
        with self._parent(path) as (folder, name):
            os.close(self._open(path, name, _FOLDER, folder))
            shutil.rmtree(name, dir_fd=folder)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Not supported: a folder goes as a whole."""
        raise NotImplementedError(path, missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        """Not supported: a folder goes as a whole."""
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        """Delete a file, or a link itself."""
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def move(self, src: str, dest: str) -> None:
        """Give a file another name; what had that name before, a link too, is gone."""
        with self._parent(src) as (old, name), self._parent(dest) as (new, new_name):
            os.replace(name, new_name, src_dir_fd=old, dst_dir_fd=new)

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file."""
        with self.open_input_stream(src) as source, self.open_output_stream(dest) as target:
            target.write(source.read())

    def flush(self, path: str) -> None:
        """Flush a file's content to disk: renamed before that, it may be empty after a power cut."""
        with self._parent(path) as (folder, name):
            opened = self._open(path, name, _FILE, folder)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def _parts(self, path: str) -> list[str]:
        below = path.removeprefix(self.base) if path != self.base else ""
        parts = [part for part in below.split("/") if part not in ("", ".")]
        if not path.startswith(self.base) or ".." in parts:
            raise LinkRefused(f"{path!a} leads out of the state folder {self.base}.")
        if "\0" in path:
            raise FileNotFoundError(f"{path!a} is no name of a file")
        return parts

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder of a path, opened, and the path's last part."""
        *folders, name = self._parts(path) or [""]
        if not name:
            raise LinkRefused(f"{path!a} is the state folder itself.")
        with self._folder("/".join((self.base, *folders))) as folder:
            yield folder, name

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """A folder, opened part by part."""
        parts = self._parts(path)
        if make and not Path(self.base).exists():
            # Plans, reports and the ledger have names of topics, groups and principals.
            Path(self.base).mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=opened)
                below = self._open(path, part, _FOLDER, opened)
                os.close(opened)
                opened = below
            yield opened
        finally:
            os.close(opened)

    def _open(self, path: str, part: str, flags: int, folder: int) -> int:
        try:
            return os.open(part, flags, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            status = _status(part, folder)
            if status is None or len(os.fsencode(part)) > os.pathconf(folder, "PC_NAME_MAX"):
                raise FileNotFoundError(f"{path!a} does not exist") from error
            if stat.S_ISLNK(status.st_mode):
                raise LinkRefused(
                    f"{path}: {part} is a symbolic link, and the state folder {self.base} is used without "
                    "following any.",
                    advice="Delete the link, and move what it names to its place; state.dir itself may be a link.",
                ) from error
            raise

    def _info(self, path: str) -> fs.FileInfo:
        try:
            if not self._parts(path):
                return _file_info(path, Path(self.base).stat())
            with self._parent(path) as (folder, name):
                return _file_info(path, _status(name, folder))
        except (LinkRefused, FileNotFoundError, NotADirectoryError):
            return fs.FileInfo(path, fs.FileType.NotFound)


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _file_info(path: str, status: os.stat_result | None) -> fs.FileInfo:
    if status and stat.S_ISREG(status.st_mode):
        return fs.FileInfo(path, fs.FileType.File, mtime_ns=status.st_mtime_ns, size=status.st_size)
    if status and stat.S_ISDIR(status.st_mode):
        return fs.FileInfo(path, fs.FileType.Directory, mtime_ns=status.st_mtime_ns)
    return fs.FileInfo(path, fs.FileType.NotFound)


def _links(path: str, folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        children = [(f"{path.rstrip('/')}/{child.name}", child) for child in entries]
        for place, entry in children:
            if entry.is_symlink():
                yield place
    for place, entry in children:
        try:
            below = os.open(entry.name, _FOLDER, dir_fd=folder)
        except OSError:
            continue  # no folder, or deleted since
        try:
            yield from _links(place, below)
        finally:
            os.close(below)


def _content(path: str, folder: int, *, recursive: bool) -> Iterator[fs.FileInfo]:
    """What is in an opened folder; with ``recursive``, also what is below it."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        info = _file_info(f"{path.rstrip('/')}/{name}", _status(name, folder))
        if info.type == fs.FileType.NotFound:
            continue
        yield info
        if recursive and info.type == fs.FileType.Directory:
            try:
                below = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:
                continue  # deleted, or replaced by a link, since it was listed
            try:
                yield from _content(info.path, below, recursive=True)
            finally:
                os.close(below)
