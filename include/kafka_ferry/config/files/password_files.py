"""Password files that a flow names: for users that a run creates, and for the Pushgateway."""

from __future__ import annotations

from typing import Final

import javaproperties

from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.java_properties import read_text
from kafka_ferry.config.types.home import at_home
from kafka_ferry.errors import ConfigError

_USERS: Final = "scram.passwords.file"
_PUSH: Final = "metrics.prometheus.push.credentials.file"
_TOKEN: Final = {"token"}
_LOGIN: Final = {"username", "password"}


def read_passwords(flow: Flow) -> dict[str, str]:
    """Passwords by user, none without such a file; no message shows any of its content.

    The file is a Java properties file in UTF-8; a relative path starts at ``FERRY_HOME``, or
    else at the working directory.

    Raises:
        ConfigError: the file cannot be read, or is not such a file.
    """
    if flow.scram_passwords_file is None:
        return {}
    return _read(flow, _USERS, flow.scram_passwords_file)


def read_push_credentials(flow: Flow) -> dict[str, str]:
    """``username`` and ``password``, or ``token``, for the Pushgateway; none without such a file.

    Raises:
        ConfigError: the file cannot be read, or has something else.
    """
    if flow.metrics_prometheus_push_credentials_file is None:
        return {}
    credentials = _read(flow, _PUSH, flow.metrics_prometheus_push_credentials_file)
    if credentials.keys() not in (_TOKEN, _LOGIN):
        reason = "must have username and password, or token, and nothing else"
        raise ConfigError(str(flow.file), _PUSH, reason)
    return credentials


def _read(flow: Flow, key: str, name: str) -> dict[str, str]:
    path = at_home(name, flow.file)
    try:
        content = content_of(path).decode("utf-8-sig")
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise ConfigError(str(flow.file), key, reason) from None
    except UnicodeDecodeError:
        raise ConfigError(str(flow.file), key, f"{path} is not text in UTF-8") from None
    try:
        values = read_text(content)
    except javaproperties.InvalidUEscapeError:
        reason = f"{path} has a \\u without four hex digits"
        raise ConfigError(str(flow.file), key, reason) from None
    empty = sorted(name for name, value in values.items() if not value)
    if empty:
        reason = f"{path} has nothing after {', '.join(empty)}"
        raise ConfigError(str(flow.file), key, reason)
    return values
