"""confluent-kafka's clients, created with what only we know of a login."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin
from kafka_ferry.errors import AccessDenied
from kafka_ferry.oauth import token_for

_Client = TypeVar("_Client")


def new_client(kind: Callable[[dict[str, Any]], _Client], config: Mapping[str, Any]) -> _Client:
    """A client of confluent-kafka's; it asks ``kafka_ferry.oauth`` for its tokens.

    Args:
        kind: ``Consumer``, ``Producer`` or ``AdminClient``.
        config: as ``confluent_config`` makes it.

    Raises:
        FerryError: no token can be had: the client would wait ten seconds for it, and not say why.
        KafkaException: librdkafka refuses the settings.
    """
    settings = dict(config)
    login: OAuthLogin | None = settings.pop(OAUTH_LOGIN, None)
    if login is None:
        return kind(settings)
    if token_for(login).expires_at <= time.time():
        where = f"{login.origin}: the token from {login.shown_endpoint}"
        raise AccessDenied(
            f"{where} has expired.", advice="Renew it, or check this machine's clock."
        )
    return kind({**settings, "oauth_cb": _callback(login)})


def _callback(login: OAuthLogin) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """What librdkafka calls, in a thread of its own, at its start and after 80 % of a token's life."""

    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        access_token = token_for(login)
        return access_token.text, access_token.expires_at, "", dict(login.extensions)

    return token
