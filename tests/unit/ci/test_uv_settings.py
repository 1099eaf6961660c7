"""Set-up takes packages from where pip would take them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import PROJECT

SCRIPT = PROJECT / ".ci" / "uv_settings.py"


def shell(tmp_path: Path, pip_file: str, show: str, **environment: str) -> str:
    """What a shell prints for ``show`` once it has taken over pip's settings."""
    file = tmp_path / "pip.conf"
    file.write_text(pip_file)
    own = {name: value for name, value in os.environ.items() if name[:3] not in ("PIP", "UV_")}
    own |= {"PIP_CONFIG_FILE": str(file), "HOME": str(tmp_path), **environment}
    settings = f'"{sys.executable}" -m pip config list | "{sys.executable}" "{SCRIPT}"'
    command = ["sh", "-c", f'eval "$({settings})"; printf %s "{show}"']
    return subprocess.run(command, env=own, check=True, text=True, capture_output=True).stdout


def test_every_place_that_pip_knows_is_told_to_uv(tmp_path: Path) -> None:
    file = """
[global]
index-url = https://one.test/it's
find-links = /a /b
[install]
extra-index-url =
    https://two.test
    https://three.test
trusted-host = one.test
"""
    shown = "$UV_DEFAULT_INDEX|$UV_FIND_LINKS|$UV_INDEX|$UV_INSECURE_HOST"

    assert shell(tmp_path, file, shown) == (
        "https://one.test/it's|/a,/b|https://two.test https://three.test|one.test"
    )


def test_pips_environment_comes_before_its_file_and_uvs_own_before_both(tmp_path: Path) -> None:
    file = "[global]\nindex-url = https://file.test\n"

    assert (
        shell(tmp_path, file, "$UV_DEFAULT_INDEX", PIP_INDEX_URL="https://env.test")
        == "https://env.test"
    )
    assert (
        shell(tmp_path, file, "$UV_DEFAULT_INDEX", UV_DEFAULT_INDEX="https://own.test")
        == "https://own.test"
    )


def test_a_machine_without_settings_sets_nothing(tmp_path: Path) -> None:
    assert shell(tmp_path, "", "${UV_DEFAULT_INDEX-none} ${UV_INDEX-none}") == "none none"
