"""The Java programs in ``tests/java``, compiled when they are first run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kafka_sandbox.java.jars import STREAMS, Jars, class_path, java
from tests import PROJECT

_SOURCES = PROJECT / "tests" / "java"
_LIMITS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


def run_java(program: str, *arguments: object, jars: Jars = STREAMS, timeout: float = 120) -> str:
    """Runs ``tests/java/{program}.java`` to its end; gives what it wrote to standard output.

    Args:
        program: the class.
        arguments: of its ``main``.
        jars: the libraries that it uses.
        timeout: seconds.

    Raises:
        subprocess.CalledProcessError: it failed; with all that it wrote as a note.
    """
    classes = os.pathsep.join([str(compiled(program, jars)), class_path(jars)])
    command = [str(java()), *_LIMITS, *_QUIET, "-cp", classes, program, *map(str, arguments)]
    return _done(command, timeout)


def compiled(program: str, jars: Jars = STREAMS) -> Path:
    """The folder with the classes of ``tests/java/{program}.java``, which use the libraries of ``jars``."""
    source = _SOURCES / f"{program}.java"
    folder = STREAMS.home / "classes" / program
    built = folder / f"{program}.class"
    libraries = class_path(STREAMS)
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        class_path(jars)
        used = os.pathsep.join(str(jar) for jar in sorted(jars.lib.glob("*.jar")))
        # Eclipse's compiler: a Java that only runs programs, as CI has it, is enough.
        compiler = [str(java()), "-cp", libraries, "org.eclipse.jdt.internal.compiler.batch.Main"]
        options = ["-17", "-nowarn", "-classpath", used, "-d", str(folder)]
        _done([*compiler, *options, str(source)], timeout=120)
    return folder


def _done(command: list[str], timeout: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, command)
        error.add_note(f"{done.stdout}\n{done.stderr}")
        raise error
    return done.stdout
