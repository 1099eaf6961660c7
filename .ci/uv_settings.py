"""What pip's settings say of where packages come from, as shell commands that tell uv.

uv reads none of pip's settings, and ``make setup`` must work wherever pip does. Reads the output of
``pip config list``; a variable of uv's own that is already set stays as it is.
"""

from __future__ import annotations

import os
import shlex
import sys
from ast import literal_eval
from collections.abc import Iterable

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
# Later ones win, as with pip.
SECTIONS = ("global", "install", ":env:")


def read(lines: Iterable[str]) -> dict[str, str]:
    """uv's variables, of lines such as ``install.cert='/a/file'``."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in lines:
        key, _, value = line.strip().partition("=")
        section, _, name = key.partition(".")
        if section in found and name in SETTINGS:
            # uv's list of links has commas, where every other list has spaces.
            separator = "," if name == "find-links" else " "
            found[section][SETTINGS[name]] = separator.join(literal_eval(value).split())
    settings = {name: value for section in SECTIONS for name, value in found[section].items()}
    if settings.get("UV_INDEX"):
        # pip asks all indexes for a version; uv by itself only the first that has the package.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in settings.items() if value and name not in os.environ}


if __name__ == "__main__":
    for variable, setting in read(sys.stdin).items():
        print(f"export {variable}={shlex.quote(setting)}")
