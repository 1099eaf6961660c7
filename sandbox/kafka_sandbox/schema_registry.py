"""A real schema registry as a child process: Apicurio's application, which speaks Confluent's API."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Final, Self

import httpx

from kafka_sandbox.broker import HOST, free_port
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import checksums, ivy
from kafka_sandbox.java.jars import SANDBOX, java, lock
from kafka_sandbox.processes import OrphanGuard, end, last_lines

# The last line that Java 17 runs.
VERSION: Final = "2.6.13.Final"
_NAME: Final = "apicurio-registry"
_PATH: Final = f"io/apicurio/{_NAME}-app/{VERSION}/{_NAME}-app-{VERSION}-all.tar.gz"
_SHA256: Final = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
_SMALL: Final = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_START_S: Final = 90.0
_UNUSED: Final = ("-Dquarkus.log.level=WARN",)


class SchemaRegistryServer:
    """A registry that holds its schemas in memory: each start begins with none.

    Args:
        directory: gets its log; made if absent.

    Attributes:
        url: of Confluent's API.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._port = free_port()
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None
        self.url = f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        return self.start().wait_ready()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start it, and do not wait.

        Raises:
            SandboxError: it cannot be fetched, or there is no Java.
        """
        home = _home()
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [
                    *(str(java()), *_SMALL, *_UNUSED),
                    *(f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self._port}"),
                    *("-jar", str(home / f"{_NAME}-app-{VERSION}-runner.jar")),
                ],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guard = OrphanGuard(self._child.pid)
        return self

    def wait_ready(self) -> Self:
        """Wait until it answers.

        Raises:
            SandboxError: it does not.
        """
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if (self._child and self._child.poll() is not None) or time.monotonic() > deadline:
                raise SandboxError(f"The registry does not answer.\n{last_lines(self._log)}")
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """End it; its schemas are gone."""
        end(self._child, self._guard)
        self._child = self._guard = None

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/subjects", timeout=5).is_success
        except httpx.HTTPError:
            return False

    @property
    def _log(self) -> Path:
        return self._directory / "registry.log"


def _home() -> Path:
    """The application's folder, fetched the first time (136 MB)."""
    home = SANDBOX / f"{_NAME}-{VERSION}"
    with lock(SANDBOX / f"{_NAME}.lock"):
        if not home.exists():
            archive, unpacked = home.with_suffix(".tar.gz"), home.with_suffix(".part")
            ivy.fetch(java(), {_PATH: archive})
            checksums.check(_PATH, archive, _SHA256)
            shutil.rmtree(unpacked, ignore_errors=True)
            with tarfile.open(archive) as packed:
                packed.extractall(unpacked, filter="data")
            unpacked.rename(home)
            archive.unlink()
    return home
