"""The command that runs a Java class of Kafka's, small and quick to start."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kafka_sandbox.java.jars import KAFKA, Jars, class_path, java

# The quick compiler alone and the simple collector: on two cores a broker answers sooner and needs
# less memory, and even after millions of records it is no slower.
_SMALL = ("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)


def command(
    main_class: str,
    *arguments: str,
    jars: Jars = KAFKA,
    options: Iterable[str] = (),
    archive_to: Path | None = None,
    folders: Iterable[Path] = (),
) -> list[str]:
    """The command line that runs ``main_class`` with Kafka's jars.

    Args:
        main_class: such as ``kafka.Kafka``.
        arguments: of its ``main``.
        jars: the jars that it is in.
        options: of the JVM, in addition to those that every command has.
        archive_to: where the JVM is to leave an archive of its classes at an orderly end, for
            ``adopt_archive``; it leaves none where there is a good one already.
        folders: of more classes. They come after the jars, so that an archive made without them fits.

    Raises:
        SandboxError: there is no Java, or the jars cannot be fetched.
    """
    classes = os.pathsep.join([class_path(jars), *map(str, folders)])
    archive: list[str] = []
    if archive_fits(jars):
        archive = [f"-XX:SharedArchiveFile={_archive(jars)}"]
    elif archive_to:
        # Of each class that it leaves out, it would speak at the end of the broker's log.
        archive = [f"-XX:ArchiveClassesAtExit={archive_to}", "-Xlog:cds=off"]
    started = [str(java()), *_SMALL, *archive, *_LOGGING, *options]
    return [*started, "-cp", classes, main_class, *arguments]


def adopt_archive(archive: Path, jars: Jars = KAFKA) -> None:
    """Keeps the class archive that a JVM left, for all later commands; there need not be one."""
    if archive.exists():
        archive.replace(_archive(jars))


def archive_fits(jars: Jars) -> bool:
    """Whether the archive is there and younger than the Java and the jars that it was made with."""
    archive = _archive(jars)
    if not archive.exists() or not jars.resolved.exists():
        return False
    made_with = max(java().resolve().stat().st_ctime, jars.resolved.stat().st_mtime)
    return archive.stat().st_mtime > made_with


def _archive(jars: Jars) -> Path:
    """The classes of an earlier broker, mapped instead of loaded: a start takes about half the time."""
    return jars.home / "broker.jsa"
