"""The schema registry of a cluster: the properties that say where it is and how to log in to it.

They are those of confluent-kafka's client, under ``schema.registry.``; certificates and keys may be text too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kafka_ferry.config.client.property_names import REGISTRY_NAMES
from kafka_ferry.config.client.property_names import REGISTRY_PREFIX as PREFIX
from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.errors import ConfigError

_STATIC_TOKEN: Final = "STATIC_TOKEN"
_LOGINS: Final = (_STATIC_TOKEN, "OAUTHBEARER")
_FILES: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


def wrong_registry(properties: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a cluster's properties of its registry, as far as they are no references."""
    urls = map(str.strip, properties.get(f"{PREFIX}url", "").split(","))
    if wrong := next(filter(None, map(_wrong_url, filter(None, urls))), None):
        yield wrong
    if "@" in properties.get(f"{PREFIX}proxy", ""):
        yield Problem(f"{PREFIX}proxy", "must hold no user and password, since it is shown")
    login = f"{PREFIX}bearer.auth.credentials.source"
    if properties.get(login, _STATIC_TOKEN) not in _LOGINS:
        yield Problem(login, f"must be one of {', '.join(_LOGINS)}")


def _wrong_url(url: str) -> Problem | None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return Problem(f"{PREFIX}url", "must be an address such as https://registry:8081")
    if "@" in parts.netloc:
        reason = "must hold no user and password, since it is shown"
        return Problem(f"{PREFIX}url", reason, f"Use {PREFIX}basic.auth.user.info.")
    return None


def registry_client_config(properties: Mapping[str, str]) -> dict[str, str]:
    """The registry's properties without their prefix, with what they leave to be understood."""
    settings = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name in REGISTRY_NAMES
    }
    if "bearer.auth.token" in settings:
        settings.setdefault("bearer.auth.credentials.source", _STATIC_TOKEN)
    if "bearer.auth.credentials.source" in settings:
        # Only Confluent's cloud reads it, and the client asks for it.
        settings.setdefault("bearer.auth.logical.cluster", "")
    return settings


def without_files(properties: Mapping[str, str], origin: str) -> dict[str, str]:
    """The registry's properties with the content of files in place of their names.

    Raises:
        ConfigError: a file cannot be read.
    """
    settings = dict(properties)
    for location, text in _FILES.items():
        if name := settings.pop(location, ""):
            try:
                settings[text] = content_of(Path(name)).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(origin, PREFIX + location, f"{name}: {error}") from error
    return settings
