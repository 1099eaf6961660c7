"""A real PostgreSQL server of a test's own, as Airflow's database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from kafka_sandbox.broker import HOST, free_port
from kafka_sandbox.processes import OrphanGuard, last_lines

# Debian keeps the server's programs off the path.
_DEBIAN = "/usr/lib/postgresql"
_START_S = 60.0
_USER = "airflow"
# What is lost when the machine stops is of no use.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Postgres:
    """A server with one empty database, ended with this process.

    It refuses to run as root. Where the tests do, it runs as ``postgres`` or, without one, as
    ``nobody``, in a folder of its own: pytest's are root's alone.

    Raises:
        FileNotFoundError: it is not installed; with what to do.
    """

    def __init__(self) -> None:
        self._programs = _programs()
        self._port = free_port()
        self._as: dict[str, object] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None

    @staticmethod
    def is_installed() -> bool:
        """Whether this machine has the server's programs."""
        try:
            _programs()
        except FileNotFoundError:
            return False
        return True

    def __enter__(self) -> Postgres:
        self._folder = Path(tempfile.mkdtemp(prefix="ferry-postgres-"))
        if os.geteuid() == 0:
            user = _unprivileged_user()
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "--username", _USER, "--auth", "trust", "--no-sync", "--encoding=UTF8")
        settings = [*_QUICK, f"port={self._port}", f"listen_addresses={HOST}"]
        settings.append(f"unix_socket_directories={self._folder}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    *("-D", str(self._data)),
                    *(word for setting in settings for word in ("-c", setting)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **self._as,  # type: ignore[arg-type]
            )
        self._guard = OrphanGuard(-self._process.pid)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
        if self._guard:
            self._guard.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Where the database is, for SQLAlchemy, with the driver that Airflow uses."""
        return f"postgresql+psycopg2://{_USER}@{HOST}:{self._port}/postgres"

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        assert self._process
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL does not start.\n{last_lines(self._log)}")

    def _answers(self) -> bool:
        where = ["-h", HOST, "-p", str(self._port), "-U", _USER, "-d", "postgres"]
        asked = subprocess.run(
            [str(self._programs / "psql"), *where, "-c", "select 1"],
            check=False,
            capture_output=True,
        )
        return asked.returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        with self._log.open("ab") as log:
            subprocess.run(
                [str(self._programs / program), "-D", str(self._data), *arguments],
                check=True,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._as,  # type: ignore[call-overload]
            )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "postgres.log"


def _programs() -> Path:
    """The folder of the server's programs: Debian's newest, else that of the one on the path."""
    if of_debian := sorted(Path(_DEBIAN).glob("*/bin/initdb"), key=_version):
        return of_debian[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    raise FileNotFoundError("There is no PostgreSQL server: apt-get install postgresql.")


def _version(program: Path) -> int:
    return int(program.parts[-3])


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
