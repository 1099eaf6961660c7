"""Modules in zip files, compiled once: ``python -m kafka_ferry.spark.bytecode [FILE ...]``.

Spark puts its library on the path of its Python processes as a zip file of sources (see
``PythonUtils.sparkPythonPath``), and ours with it, where it is among the ``--py-files``. Python keeps no
bytecode of what it imports from a zip file, so each driver and each daemon would compile both again.
"""

from __future__ import annotations

import shutil
import sys
from compileall import compile_dir
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

# Times in a zip file are local and have no zone, so they cannot be compared.
_NEVER_STALE = PycInvalidationMode.UNCHECKED_HASH


def add_bytecode(archive: Path) -> bool:
    """Add this Python's bytecode to a zip file of modules, next to their sources.

    Other versions of Python still compile the sources. The file is replaced atomically, so that
    concurrent readers see the old one.

    Args:
        archive: the zip file.

    Returns:
        Whether there was none in it before.

    Raises:
        OSError: it cannot be read or replaced.
    """
    with ZipFile(archive) as modules, TemporaryDirectory(dir=archive.parent) as folder:
        if any(name.endswith(".pyc") for name in modules.namelist()):
            return False
        sources = Path(folder, "modules")
        modules.extractall(sources)
        compile_dir(
            sources,
            stripdir=str(sources),
            prependdir=str(archive),
            quiet=2,
            legacy=True,
            invalidation_mode=_NEVER_STALE,
        )
        Path(shutil.make_archive(f"{folder}/compiled", "zip", sources)).replace(archive)
    return True


def main() -> None:
    """Do so with the files that are named, or else with the library of the package ``pyspark``."""
    archives = [Path(name) for name in sys.argv[1:]] or _spark_library()
    for archive in archives:
        try:
            add_bytecode(archive)
        except (OSError, BadZipFile) as error:
            sys.exit(
                f"Bytecode cannot be added to {archive}: {error}. Run this as the user who installed it."
            )


def _spark_library() -> list[Path]:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("The package pyspark is missing: install it first.")
    return sorted(Path(spec.origin).parent.glob("python/lib/*.zip"))


if __name__ == "__main__":
    main()
