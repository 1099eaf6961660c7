"""The project's image, built by its own Dockerfile on a stand-in for Airflow's, and commands that run in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path

from tests import PROJECT

STAND_IN = Path(__file__).parent / "stand_in" / "Dockerfile"
# The release of Debian that Airflow's image is made of; its Python is 3.11.
DEBIAN = "bookworm"
TOOLS = ("buildah", "mmdebstrap")
BUILD_S = 1800
# Where it is in the image: Java's package writes into the folder of the system's certificates.
AUTHORITIES = "/etc/pip-authorities.pem"


def why_not() -> str:
    """Why no image can be built on this machine; empty where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"no image without {' and '.join(missing)}: apt-get install buildah mmdebstrap"
    return "" if os.geteuid() == 0 else "buildah's chroot needs root here"


class Image:
    """The images of one folder, and one container of the project's; no daemon runs.

    Args:
        folder: an empty folder for all that is stored.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._container = ""

    def build(self) -> None:
        """Builds the stand-in, then the project's image on it, and makes a container.

        Raises:
            RuntimeError: a step failed; the message has its output.
        """
        context = self._folder / "stand-in"
        context.mkdir()
        packages = "--include=ca-certificates,python3,python3-venv"
        tree = context / "debian.tar"
        _run(["mmdebstrap", "--variant=minbase", packages, DEBIAN, str(tree)])
        (context / "versions.txt").write_text("\n".join(locked_versions()))
        shutil.copy(STAND_IN, context)
        self._buildah("bud", *self._settings(), "--tag", "stand-in", str(context))
        tree.unlink()
        base = ("--build-arg", "BASE_IMAGE=localhost/stand-in")
        # With the format of OCI, the Dockerfile's SHELL would not count.
        form = ("--format", "docker")
        self._buildah("bud", *form, *self._settings(), *base, "--tag", "ferry", str(PROJECT))
        self._container = self.container_of("ferry")

    def container_of(self, image: str) -> str:
        """A new container of ``stand-in`` or ``ferry``, by its name."""
        return self._buildah("from", f"localhost/{image}").strip()

    def run(
        self,
        *command: str,
        container: str = "",
        environment: Mapping[str, str] | None = None,
        volumes: Mapping[Path, str] | None = None,
    ) -> str:
        """What a command prints in the container, as the image's user, on this machine's network.

        Args:
            command: the command and its arguments.
            container: the container; by default the one of the project's image.
            environment: variables beside those of the image.
            volumes: folders or files of this machine, and where they are in the container.

        Raises:
            RuntimeError: the command failed; the message has its output.
        """
        more = [f"--env={name}={value}" for name, value in (environment or {}).items()]
        more += [f"--volume={here}:{there}" for here, there in (volumes or {}).items()]
        # Docker and Kubernetes write a container's name into its /etc/hosts, where Java looks it up.
        where = ["--isolation", "chroot", "--network", "host", "--hostname", "localhost", *more]
        return self._buildah("run", *where, container or self._container, "--", *command)

    def delete(self) -> None:
        """Deletes containers, images and their folder."""
        self._buildah("rm", "--all")
        self._buildah("rmi", "--all", "--force")
        shutil.rmtree(self._folder)

    def _settings(self) -> list[str]:
        """How to build here, with pip's settings of this machine."""
        file = self._folder / "pip.conf"
        volumes = [f"--volume={file}:/etc/pip.conf:ro"]
        settings = pip_settings()
        if authorities := settings.get("cert"):
            volumes.append(f"--volume={authorities}:{AUTHORITIES}:ro")
            settings["cert"] = AUTHORITIES
        lines = ["[global]", *(f"{name} = {value}" for name, value in settings.items())]
        file.write_text("\n".join(lines) + "\n")
        return ["--isolation", "chroot", "--network", "host", *volumes]

    def _buildah(self, command: str, *arguments: str) -> str:
        stored = ["--root", str(self._folder / "images"), "--runroot", str(self._folder / "run")]
        return _run(["buildah", *stored, command, *arguments])


def pip_settings() -> dict[str, str]:
    """What pip's settings here say of the way to packages; folders of this machine are in no container."""
    listed = _run([sys.executable, "-m", "pip", "config", "list"])
    lines = re.findall(r"^(?:global|install|:env:)\.([a-z-]+)=(.+)$", listed, re.MULTILINE)
    names = ("index-url", "extra-index-url", "trusted-host", "cert", "proxy", "default-timeout")
    return {name: " ".join(literal_eval(value).split()) for name, value in lines if name in names}


def locked_versions() -> list[str]:
    """The lock file's versions, as pip's constraints, without the hashes."""
    locked = (PROJECT / "requirements.lock").read_text()
    return re.findall(r"^([^ =]+==[^ \\\n]+(?: ;[^\\\n]*[^\\\n ])?)", locked, re.MULTILINE)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
