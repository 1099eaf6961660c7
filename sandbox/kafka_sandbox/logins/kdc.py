"""A real MIT Kerberos KDC as a child process, with a realm of its own, and brokers that log in with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from kafka_sandbox.broker import HOST, Broker, free_port
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.processes import OrphanGuard, end, last_lines

REALM: Final = "FERRY.TEST"
"""The realm of every KDC here."""
BROKER_HOST: Final = "localhost"
"""The host in brokers' principals and addresses."""
# Debian puts them where only root's PATH looks.
_PATH: Final = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
_TOOLS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_START_S: Final = 20.0
_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


def missing_tools() -> list[str]:
    """The programs of Debian's krb5-kdc, krb5-admin-server and krb5-user that are not installed."""
    return [tool for tool in _TOOLS if not shutil.which(tool, path=_PATH)]


class Kdc:
    """A KDC of the realm ``REALM``; its database and its principals' keys are in one directory.

    Args:
        directory: where all of it is; made if absent.
        ticket_life: for how long tickets are valid, as ``kdc.conf`` writes it.

    Attributes:
        config: the ``krb5.conf`` that clients and brokers need.
    """

    def __init__(self, directory: Path, *, ticket_life: str = "1h") -> None:
        self._directory = directory.resolve()
        self._life = ticket_life
        self._port = free_port()
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None
        self.config = self._directory / "krb5.conf"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start it, with its old database where it has one; wait until it answers."""
        if not self.config.exists():
            self._create()
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(shutil.which("krb5kdc", path=_PATH)), "-n"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guard = OrphanGuard(self._child.pid)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise SandboxError(f"The KDC does not answer.\n{last_lines(self._log)}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End it; its database stays."""
        end(self._child, self._guard)
        self._child = self._guard = None

    def key_tab(self, principal: str) -> Path:
        """A file with the keys of ``principal``, which is created, or gets new keys."""
        file = self._directory / f"{principal.replace('/', '_')}.keytab"
        file.unlink(missing_ok=True)
        self.administer(f"add_principal -randkey {principal}")
        self.administer(f"ktadd -k {file} {principal}")
        return file

    def issued(self, principal: str) -> int:
        """How often ``principal`` has got its own tickets, by the log."""
        said = (line for line in self._log.read_text().splitlines() if "AS_REQ" in line)
        return sum("ISSUE" in line and f"{principal}@{REALM} for krbtgt/" in line for line in said)

    def administer(self, command: str) -> None:
        """Run a command of kadmin's."""
        self._run("kadmin.local", "-r", REALM, "-q", command)

    def _create(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n"
            f"  kdc = {HOST}:{self._port}\n }}\n[logging]\n kdc = STDERR\n"
        )
        self._profile.write_text(
            f"[realms]\n {REALM} = {{\n  database_name = {self._directory}/principal\n"
            f"  key_stash_file = {self._directory}/stash\n  acl_file = {self._directory}/acl\n"
            f"  kdc_listen = {HOST}:{self._port}\n  kdc_tcp_listen = {HOST}:{self._port}\n"
            f"  max_life = {self._life}\n }}\n"
        )
        self._run("kdb5_util", "-r", REALM, "-P", "master-5ecret", "create", "-s")

    def _run(self, tool: str, *arguments: str) -> None:
        command = [str(shutil.which(tool, path=_PATH)), *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SandboxError(f"{tool} failed: {done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0

    @property
    def _environment(self) -> dict[str, str]:
        ours = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self._profile)}
        return {**os.environ, **ours}

    @property
    def _profile(self) -> Path:
        return self._directory / "kdc.conf"

    @property
    def _log(self) -> Path:
        return self._directory / "kdc.log"


class KerberosBroker(Broker):
    """A ``Broker`` with a further listener, ``SASL_PLAINTEXT``, that offers GSSAPI.

    Args:
        directory: as for ``Broker``.
        kdc: the KDC of its realm, which must answer when it starts.
        service: the first part of its principal.
        config: as for ``Broker``.

    Attributes:
        principal: its own, without the realm.
        key_tab: the file with its keys, which it reads again when it changes.
        secured: host and port of that listener.
    """

    def __init__(
        self,
        directory: Path,
        kdc: Kdc,
        service: str = "kafka",
        *,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self._kdc = kdc
        self.principal = f"{service}/{BROKER_HOST}"
        self.key_tab = kdc.key_tab(self.principal)
        self.secured = f"{BROKER_HOST}:{free_port()}"
        jaas = (
            f'{_MODULE} required useKeyTab="true" storeKey="true" keyTab="{self.key_tab}" '
            f'principal="{self.principal}@{REALM}";'
        )
        self.config = {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{self.controller_port},"
            f"SASL_PLAINTEXT://{self.secured}",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas,
            **dict(config or {}),
        }

    @property
    def _jvm_options(self) -> tuple[str, ...]:
        return (f"-Djava.security.krb5.conf={self._kdc.config}",)
