"""What pip-audit found, for people: each known vulnerability, and for how many packages no answer came.

Reads pip-audit's JSON. By itself pip-audit says "no known vulnerabilities" also where the registry has answered
for no package. The exit status is 1 if a vulnerability is known, and 2 if there is no report.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def told(report: dict[str, Any]) -> list[str]:
    """The report's lines; the last one counts."""
    packages = report["dependencies"]
    silent = sorted(it["name"] for it in packages if "skip_reason" in it)
    lines = [
        f"{package['name']} {package['version']}: {_names(found)}{_repaired(found)}"
        for package in packages
        for found in package.get("vulns", [])
    ]
    known = len(lines)
    if silent:
        some = ", ".join(silent[:5]) + (", ..." if len(silent) > 5 else "")
        lines.append(f"No answer for {len(silent)} of {len(packages)} packages: {some}")
    asked = len(packages) - len(silent)
    lines.append(f"{known} known vulnerabilities in the {asked} packages with an answer")
    return lines


def is_vulnerable(report: dict[str, Any]) -> bool:
    """Whether a vulnerability is known."""
    return any(it.get("vulns") for it in report["dependencies"])


def _names(found: dict[str, Any]) -> str:
    return ", ".join([found["id"], *(it for it in found["aliases"] if it != found["id"])])


def _repaired(found: dict[str, Any]) -> str:
    versions = ", ".join(found["fix_versions"])
    return f"; repaired in {versions}" if versions else "; not repaired yet"


if __name__ == "__main__":
    text = sys.stdin.read()
    if not text.strip():
        sys.exit(2)
    found = json.loads(text)
    print("\n".join(told(found)))
    sys.exit(is_vulnerable(found))
