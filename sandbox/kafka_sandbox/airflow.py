"""A real Airflow of this project: ``python -m kafka_sandbox.airflow up | down | status | env``."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import psutil
import typer

from kafka_sandbox.airflow_api import AirflowApi
from kafka_sandbox.broker import HOST
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.processes import OrphanGuard, end, last_lines

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / ".airflow"
SETTINGS = PROJECT / "airflow_settings.yaml"
PORT = 8080
USER = "admin"
# A component, and the words that only its process's command has.
_PARTS = {
    "scheduler": ("scheduler",),
    "DAG processor": ("dag-processor", "dag_processor"),
    "triggerer": ("triggerer",),
    "API server": ("api-server", "api_server"),
}

app = typer.Typer(help="A real Airflow of this project.", no_args_is_help=True)


class Airflow:
    """``airflow standalone``, with everything it owns in one directory.

    The directory holds the database (SQLite, unless ``extra`` names another), the logs of all
    tasks, ``standalone.log`` and, while it runs, ``standalone.json`` with its process and port. A
    second ``Airflow`` on the same directory, in any process, is the same one. Its processes have a
    session to themselves, which ends as a whole: SIGTERM to the first one alone would leave the
    others after.

    Attributes:
        home: where all of it is (``AIRFLOW_HOME``); made if absent.
        port: of the web server; that of the running one, if one runs.
        extra: environment variables, which override the sandbox's own.
        users: the role (``viewer``, ``user``, ``op``) of each further user.
        daemon: whether it outlives this process; otherwise it is killed with it, however this
            process ends.
    """

    def __init__(
        self,
        home: Path,
        *,
        port: int = PORT,
        extra: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        daemon: bool = False,
    ) -> None:
        self.home = home.resolve()
        self.extra = dict(extra or {})
        self.users = {USER: "admin", **(users or {})}
        self.daemon = daemon
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None
        running = self._running()
        self.port = running["port"] if running else port

    @property
    def url(self) -> str:
        """Where the web pages are."""
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The first process's id, which is the group's too; None while it does not run."""
        running = self._running()
        return running["pid"] if running else None

    @property
    def ended_parts(self) -> list[str]:
        """The components whose process has ended, while the others run: Airflow does not start them again."""
        pid = self.pid
        if not pid:
            return []
        commands, has_ended = [], False
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    has_ended |= child.status() == psutil.STATUS_ZOMBIE
                    commands.append(" ".join(child.cmdline()))
        # At its start it has none of them yet.
        return [
            part
            for part, words in _PARTS.items()
            if has_ended and not any(word in command for word in words for command in commands)
        ]

    @property
    def other_variables(self) -> list[str]:
        """The variables of Kafka Ferry that have another value here than where it runs, which keeps its own."""
        pid = self.pid
        if not pid:
            return []
        mine, its = {**os.environ, **self.environment}, psutil.Process(pid).environ()
        names = sorted(name for name in mine.keys() | its if name.startswith("FERRY_"))
        return [name for name in names if mine.get(name) != its.get(name)]

    @property
    def log_file(self) -> Path:
        """What the components wrote since the last start."""
        return self.home / "standalone.log"

    @property
    def password(self) -> str:
        """The password of ``admin``."""
        return self.password_of(USER)

    def password_of(self, user: str) -> str:
        """The password of one of ``users``, made here so that Airflow does not write it to its log."""
        if not self._password_file.exists():
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._password_file.touch(mode=0o600)
            passwords = {name: secrets.token_urlsafe(12) for name in self.users}
            self._password_file.write_text(json.dumps(passwords) + "\n")
        return str(json.loads(self._password_file.read_text())[user])

    @property
    def api(self) -> AirflowApi:
        """Its REST API, logged in as ``admin``."""
        return AirflowApi(self.url, USER, self.password)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make ``airflow`` commands mean this Airflow and this project."""
        binaries = str(Path(sys.executable).parent)
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role}" for name, role in self.users.items()
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file),
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            # A changed or new flow file shows within this many seconds.
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            # Where the API server would fetch logs that it cannot read itself.
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.port + 1),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.port + 2),
            "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(PROJECT / "include"),
            "FERRY_HOME": str(PROJECT),
            **self.extra,
        }

    def start(self) -> Airflow:
        """Starts it and does not wait; does nothing if it runs, unless a part of it has ended.

        Raises:
            SandboxError: the port is taken.
        """
        if self.ended_parts:
            self.stop()
        if self.pid:
            return self
        if _answers(self.port):
            raise SandboxError(
                f"Port {self.port} of {HOST} is in use by another process; take another one "
                "with --port or FERRY_AIRFLOW_PORT."
            )
        # Makes the directory and the password.
        environment = {**os.environ, **self.environment, "NO_COLOR": "1"}
        assert self.password
        with self.log_file.open("wb") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "airflow", "standalone"],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid = self._child.pid
        self._process_file.write_text(json.dumps({"pid": pid, "port": self.port}) + "\n")
        if not self.daemon:
            self._guard = OrphanGuard(-pid)
        return self

    def wait_healthy(self, timeout: float = 180) -> Airflow:
        """Waits until scheduler, DAG processor, triggerer and database are all right.

        Args:
            timeout: seconds.

        Raises:
            SandboxError: it ended, or time ran out; with the end of its log.
        """
        api = AirflowApi(self.url, USER, self.password)
        unhealthy: list[str] = []
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.pid:
                raise SandboxError(f"Airflow ended at its start.\n{last_lines(self.log_file)}")
            if ended := self.ended_parts:
                raise SandboxError(
                    f"Airflow runs without its {' and '.join(ended)}, whose process has ended: repeat the command, "
                    f"which starts it again.\n{last_lines(self.log_file)}"
                )
            unhealthy = api.unhealthy()
            if not unhealthy:
                return self
            time.sleep(0.5)
        raise SandboxError(
            f"Airflow is not ready after {timeout:g} s: not healthy are {', '.join(unhealthy)}. If it has only begun "
            "to start, repeat the command; otherwise python -m kafka_sandbox.airflow down, and up again.\n"
            f"{last_lines(self.log_file)}"
        )

    def stop(self, timeout: float = 30) -> None:
        """Ends all of its processes, Spark's too; kills what is left after ``timeout`` seconds."""
        if pid := self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)
            deadline = time.monotonic() + timeout
            while (left := self._session(pid)) and time.monotonic() < deadline:
                time.sleep(0.1)
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._forget()

    def kill(self) -> None:
        """Kills all of its processes at once, as a power cut does; ``start`` continues from there."""
        if pid := self.pid:
            for process in self._session(pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._forget()

    def _forget(self) -> None:
        end(self._child, self._guard)
        self._guard = self._child = None
        self._process_file.unlink(missing_ok=True)

    @property
    def _password_file(self) -> Path:
        return self.home / "simple_auth_manager_passwords.json.generated"

    @property
    def _process_file(self) -> Path:
        return self.home / "standalone.json"

    def _running(self) -> dict[str, int] | None:
        # A process id may have been given to something else since.
        try:
            running: dict[str, int] = json.loads(self._process_file.read_text())
            process = psutil.Process(running["pid"])
            mine = process.environ().get("AIRFLOW_HOME") == str(self.home)
            return running if mine and process.status() != psutil.STATUS_ZOMBIE else None
        except (FileNotFoundError, ValueError, psutil.Error):
            return None

    def _session(self, leader: int) -> list[psutil.Process]:
        # Each running task is a process group of its own, in the first process's session.
        if self._child:
            self._child.poll()
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process.pid) == leader:
                    found.append(process)
        return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


Port = Annotated[int, typer.Option(envvar="FERRY_AIRFLOW_PORT", help="Of the web pages.")]


@app.command()
def up(port: Port = PORT) -> None:
    """Starts Airflow unless it runs, and loads airflow_settings.yaml into it."""
    airflow = Airflow(HOME, port=port, daemon=True)
    if not airflow.pid:
        typer.echo("Starting Airflow ...")
    elif ended := airflow.ended_parts:
        typer.echo(
            f"The process of Airflow's {' and '.join(ended)} has ended: starting it again ..."
        )
    elif names := airflow.other_variables:
        typer.echo(
            f"Airflow runs with other values of {', '.join(names)} than this shell, and keeps them: for these, "
            "python -m kafka_sandbox.airflow down, and up again.",
            err=True,
        )
    try:
        airflow.start().wait_healthy().api.load_settings(SETTINGS)
    except SandboxError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Airflow  {airflow.url}  log in as {USER}, password {airflow.password}")


@app.command()
def down() -> None:
    """Stops Airflow; its database and logs stay."""
    Airflow(HOME).stop()
    typer.echo("Airflow is stopped.")


@app.command()
def status() -> None:
    """Says whether it runs with all its parts, and where; exits with 1 if a part has ended or is not healthy."""
    airflow = Airflow(HOME)
    state = f"runs, process {airflow.pid}, {airflow.url}" if airflow.pid else "does not run"
    typer.echo(f"Airflow {state}; files in {airflow.home}")
    if not airflow.pid:
        return
    if ended := airflow.ended_parts:
        typer.echo(
            f"The process of its {' and '.join(ended)} has ended: python -m kafka_sandbox.airflow up starts it again.",
            err=True,
        )
        raise typer.Exit(1)
    if unhealthy := airflow.api.unhealthy():
        typer.echo(
            f"Not healthy: {', '.join(unhealthy)}. If it has not only begun to start: "
            "python -m kafka_sandbox.airflow down, and up again.",
            err=True,
        )
        raise typer.Exit(1)


@app.command()
def env() -> None:
    """Prints what makes ``airflow`` commands mean this Airflow, for a shell to ``eval``."""
    for name, value in Airflow(HOME).environment.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    app()
