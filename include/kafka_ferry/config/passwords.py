"""``scram.passwords.file``: the passwords of users that a run creates on the target."""

from __future__ import annotations

import os
from pathlib import Path

import javaproperties

from kafka_ferry.config.flow import Flow
from kafka_ferry.errors import ConfigError

_KEY = "scram.passwords.file"


def read_passwords(flow: Flow) -> dict[str, str]:
    """Passwords by user, none without such a file; nothing of it is in any message.

    The file is a Java properties file in UTF-8; a relative path starts at ``FERRY_HOME``, or
    else at the working directory.

    Raises:
        ConfigError: the file cannot be read, or is no such file.
    """
    if flow.scram_passwords_file is None:
        return {}
    home = Path(os.environ.get("FERRY_HOME") or Path.cwd())
    path = home / Path(flow.scram_passwords_file).expanduser()
    try:
        content = path.read_text("utf-8")
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise ConfigError(str(flow.file), _KEY, reason) from None
    except UnicodeDecodeError:
        raise ConfigError(str(flow.file), _KEY, f"{path} is no text in UTF-8") from None
    try:
        passwords = javaproperties.loads(content)
    except javaproperties.InvalidUEscapeError:
        reason = f"{path} has a \\u without four hex digits"
        raise ConfigError(str(flow.file), _KEY, reason) from None
    empty = sorted(user for user, password in passwords.items() if not password)
    if empty:
        reason = f"{path} has no password behind {', '.join(empty)}"
        raise ConfigError(str(flow.file), _KEY, reason)
    return {str(user): str(password) for user, password in passwords.items()}
