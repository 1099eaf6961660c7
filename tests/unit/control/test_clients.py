"""librdkafka gets its tokens from us, and is not created without one; it needs no broker for that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import confluent_config
from kafka_ferry.config.client.property_names import Role
from kafka_ferry.control.clients import new_client
from kafka_ferry.errors import AccessDenied
from tests.support.servers.identity_provider import (
    IdentityProvider,
    identity_provider,
    oauth_properties,
)

KINDS = {"consumer": Consumer, "producer": Producer, "admin": AdminClient}
BASE = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}


def config(role: Role, properties: dict[str, str]) -> dict[str, object]:
    found = confluent_config({**BASE, **properties}, role)
    return found | {"log_level": 0} | ({"group.id": "g"} if role == "consumer" else {})


@pytest.mark.parametrize("role", KINDS)
def test_each_kind_of_client_takes_a_token_with_its_extensions(role: Role) -> None:
    with identity_provider() as provider:
        properties = oauth_properties(provider.endpoint, extension_pool="p1")
        new_client(KINDS[role], config(role, properties))
        assert len(provider.requests) == 1


def test_a_client_renews_its_token() -> None:
    with identity_provider() as provider:
        provider.life_s = 2
        client = new_client(AdminClient, config("admin", oauth_properties(provider.endpoint)))
        time.sleep(2.5)
        assert len(provider.requests) >= 2
        assert client


def test_a_token_that_cannot_be_had_is_told_at_once() -> None:
    with identity_provider() as provider:
        began = time.monotonic()
        with pytest.raises(AccessDenied, match="invalid_client"):
            new_client(Producer, config("producer", oauth_properties(provider.endpoint, "wr0ng")))
        assert time.monotonic() - began < 2


def test_a_token_that_has_expired_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(IdentityProvider("https://id").token("ann", exp=1_000))
    with pytest.raises(AccessDenied, match="has expired"):
        new_client(Consumer, config("consumer", oauth_properties(file.as_uri())))
