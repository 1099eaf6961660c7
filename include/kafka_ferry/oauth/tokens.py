"""The tokens of this process: one for each login, fetched when a connection first needs it.

Both planes take theirs from here. As in Java, a token is renewed after 80 % of its life; while that fails
for a passing reason, the old one serves until its end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from kafka_ferry.config.client.oauth import ENDPOINT, OAuthLogin
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.oauth.access_token import AccessToken, expiry_of, is_token
from kafka_ferry.oauth.msk_token import msk_token
from kafka_ferry.oauth.token_endpoint import fetch_token, token_with_life

_LOG: Final = logging.getLogger(__name__)


class _Slot:
    """A login's token; its lock lets one thread fetch it while the others wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.token: AccessToken | None = None


class _Tokens:
    """The slots of all logins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[OAuthLogin, _Slot] = {}

    def slot(self, login: OAuthLogin) -> _Slot:
        with self._lock:
            return self._slots.setdefault(login, _Slot())

    def unlock(self) -> None:
        """After a fork: locks that another thread of the parent held are held for ever."""
        self._lock = threading.Lock()
        for slot in self._slots.values():
            slot.lock = threading.Lock()


_TOKENS: Final = _Tokens()
os.register_at_fork(after_in_child=_TOKENS.unlock)


def token_for(login: OAuthLogin) -> AccessToken:
    """The login's token, a new one if it is about to expire.

    Raises:
        AccessDenied: the token endpoint refuses the client.
        ClusterUnreachable: the token endpoint cannot be reached.
        ConfigError: the file with the token cannot be read, or holds none; or AWS's library is not
            installed.
    """
    if login.is_file:
        # The program that renews the token replaces the file: each login reads it.
        return _token_in_file(login)
    slot = _TOKENS.slot(login)
    with slot.lock:
        now, old = time.time(), slot.token
        if old and now < old.renew_at:
            return old
        try:
            slot.token = _new_token(login)
        except FerryError as error:
            if not (old and error.transient and now < old.expires_at):
                raise
            _LOG.warning("The token is not renewed yet: %s", error)
            return old
        return slot.token


def forget_token(login: OAuthLogin, token: AccessToken) -> None:
    """Fetch another one next time: a broker has refused this one."""
    slot = _TOKENS.slot(login)
    with slot.lock:
        if slot.token is token:
            slot.token = None


def _new_token(login: OAuthLogin) -> AccessToken:
    if login.iam:
        return token_with_life(login, *msk_token(login.iam, login.origin))
    return fetch_token(login)


def _token_in_file(login: OAuthLogin) -> AccessToken:
    file = login.token_file
    text = file.read(login.origin).strip()
    expiry = expiry_of(text) if is_token(text) else None
    if expiry is None:
        reason = f"{file.path} holds no JWT that says when it expires (exp)"
        raise ConfigError(login.origin, ENDPOINT, reason)
    return AccessToken(text, time.time(), expiry)
