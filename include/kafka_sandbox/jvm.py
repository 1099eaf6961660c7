"""The command that runs a Java class of Kafka's, small and quick to start."""

from __future__ import annotations

from pathlib import Path

from kafka_sandbox import jars

# The quick compiler alone and the simple collector: on two cores a broker answers sooner and needs
# less memory, and even after millions of records it is no slower.
_SMALL = ("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)
# The classes of an earlier broker, mapped instead of loaded: a start takes about half the time.
_ARCHIVE = jars.SANDBOX / "kafka" / "broker.jsa"


def command(main_class: str, *arguments: str, archive_to: Path | None = None) -> list[str]:
    """The command line that runs ``main_class`` with Kafka's jars.

    Args:
        main_class: such as ``kafka.Kafka``.
        arguments: of its ``main``.
        archive_to: where the JVM is to leave an archive of its classes at an orderly end, for
            ``adopt_archive``; it leaves none where there is a good one already.

    Raises:
        SandboxError: there is no Java, or the jars cannot be fetched.
    """
    class_path = jars.class_path()
    archive: list[str] = []
    if _archive_fits():
        archive = [f"-XX:SharedArchiveFile={_ARCHIVE}"]
    elif archive_to:
        archive = [f"-XX:ArchiveClassesAtExit={archive_to}"]
    java = str(jars.java())
    return [java, *_SMALL, *archive, *_LOGGING, "-cp", class_path, main_class, *arguments]


def adopt_archive(archive: Path) -> None:
    """Keeps the class archive that a JVM left, for all later commands; there need not be one."""
    if archive.exists():
        archive.replace(_ARCHIVE)


def _archive_fits() -> bool:
    """Whether the archive is there and younger than the Java and the jars that it was made with."""
    if not _ARCHIVE.exists():
        return False
    made_with = max(jars.java().resolve().stat().st_ctime, jars.RESOLVED.stat().st_mtime)
    return _ARCHIVE.stat().st_mtime > made_with
