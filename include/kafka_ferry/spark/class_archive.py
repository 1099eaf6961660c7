"""An archive of the classes of Spark's driver: ``python -m kafka_ferry.spark.class_archive``.

A JVM maps it into memory instead of loading and verifying some ten thousand classes, which takes most of
the time of a small run (JEP 350, dynamic archives). It is for one version of Java and Spark, which are
part of its name; a JVM that finds that it does not fit starts without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kafka_ferry.spark.java import java_version
from kafka_ferry.spark.security.private_sockets import temporary_files_in
from kafka_ferry.spark.security.spark_home import spark_home

_NAME: Final = "kafka-ferry-java-{}.jsa"


def found_archive() -> Path | None:
    """The archive for the Java that Spark would start; None where there is none."""
    archive = _archive()
    return archive if archive and archive.exists() else None


def _archive() -> Path | None:
    """Where the archive for this Java and this Spark is to be; None without one of them."""
    home, version = spark_home(), java_version()
    return home / _NAME.format(version) if home and version else None


def make_archive(archive: Path) -> None:
    """Create the archive from the classes that a small query loads.

    Args:
        archive: the file; replaced as a whole.

    Raises:
        OSError: it cannot be written.
        RuntimeError: Spark has written none; the message has its output.
    """
    home = archive.parent
    with TemporaryDirectory(dir=home, prefix=".archive-") as folder:
        made = Path(folder, archive.name)
        # It would log each class that it leaves out.
        options = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off {temporary_files_in(folder)}"
        rehearsal = Path(__file__).with_name("rehearsal.py")
        submit = [str(home / "bin/spark-submit"), "--master", "local[2]"]
        done = subprocess.run(
            [*submit, "--driver-java-options", options, str(rehearsal), f"{folder}/checkpoint"],
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONSAFEPATH": "1",
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode or not made.exists():
            raise RuntimeError(
                f"Spark did not write its classes; its output:\n{done.stdout[-2000:]}"
            )
        made.replace(archive)


def main() -> None:
    """Create the archive of this machine's Java and Spark, unless there is one that is newer than both."""
    archive = _archive()
    if archive is None:
        sys.exit("PySpark is missing, or Java does not report its version.")
    if archive.exists() and archive.stat().st_mtime > (archive.parent / "jars").stat().st_mtime:
        return
    try:
        make_archive(archive)
    except RuntimeError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{archive} cannot be written: {error}. Run this as the user who installed Spark.")


if __name__ == "__main__":
    main()
