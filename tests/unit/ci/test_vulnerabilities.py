"""Known vulnerabilities are told, and a registry that does not answer is not taken for good news."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests import PROJECT

SCRIPT = PROJECT / ".ci" / "vulnerabilities.py"
SOUND = {"name": "idna", "version": "3.20", "vulns": []}
SILENT = {"name": "click", "skip_reason": "Dependency not found on the registry"}
BROKEN = {
    "name": "jinja2",
    "version": "3.1.4",
    "vulns": [
        {"id": "PYSEC-1", "aliases": ["CVE-2024-56201", "PYSEC-1"], "fix_versions": ["3.1.5"]},
        {"id": "PYSEC-2", "aliases": [], "fix_versions": []},
    ],
}


def told(*packages: dict[str, Any]) -> tuple[int, list[str]]:
    report = json.dumps({"dependencies": packages, "fixes": []})
    done = subprocess.run(
        [sys.executable, SCRIPT], input=report, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("packages", "status", "lines"),
    [
        ([SOUND], 0, ["0 known vulnerabilities in the 1 packages with an answer"]),
        (
            [SILENT, SILENT],
            0,
            [
                "No answer for 2 of 2 packages: click, click",
                "0 known vulnerabilities in the 0 packages with an answer",
            ],
        ),
        (
            [BROKEN, SOUND, SILENT],
            1,
            [
                "jinja2 3.1.4: PYSEC-1, CVE-2024-56201; repaired in 3.1.5",
                "jinja2 3.1.4: PYSEC-2; not repaired yet",
                "No answer for 1 of 3 packages: click",
                "2 known vulnerabilities in the 2 packages with an answer",
            ],
        ),
    ],
    ids=["sound", "silent", "vulnerable"],
)
def test_a_report_says_what_is_known_and_for_how_many_packages(
    packages: list[dict[str, Any]], status: int, lines: list[str]
) -> None:
    assert told(*packages) == (status, lines)


def test_no_report_is_an_error() -> None:
    assert (
        subprocess.run([sys.executable, SCRIPT], input="", text=True, check=False).returncode == 2
    )
