"""A schema registry, by Confluent's API and Confluent's own client, whose imports take a moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import regex

from kafka_ferry.config.client.cluster import secret_values
from kafka_ferry.config.client.property_names import REGISTRY_PREFIX
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.memory_file import memory_file
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.printable import LOOKED_AT, excerpt
from kafka_ferry.schemas.answers import (
    IDS,
    AnswerTooLarge,
    id_of,
    limit_answers,
    list_of,
    require_kind,
    schema_of,
    version_of,
)
from kafka_ferry.schemas.registered import RegisteredSchema
from kafka_ferry.secret_values import MASK, without

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster

EXTRA: Final = "Install the extra schema-registry: pip install 'kafka-ferry[schema-registry]'."
"""What to do where a package is missing."""
_T = TypeVar("_T")
_U = TypeVar("_U")
_TIMEOUT_S: Final = 30.0
_TEXTS: Final = {
    "ssl.ca.pem": "ssl.ca.location",
    "ssl.certificate.pem": "ssl.certificate.location",
    "ssl.key.pem": "ssl.key.location",
}
_NOT_FOUND: Final = 404
# What it says of a schema that it refuses has some lines.
_LONGEST_SENTENCE: Final = 2_000
_BEARER: Final = regex.compile(r"(?<=Bearer )[^\s'\"]+")
_NO_ANSWER: Final = (-1, 408, 429, 500, 502, 503, 504)


class RegistryRefused(FerryError):
    """A registry refuses a schema or a setting; the others are not concerned."""


class _Unknown(RegistryRefused):
    """The registry does not know what it is asked for, or does not know the question.

    Attributes:
        is_own: whether it says so as a registry does, with an error's number.
    """

    def __init__(self, message: str, *, is_own: bool) -> None:
        super().__init__(message)
        self.is_own = is_own


class SchemaRegistry(Protocol):
    """What is read of a registry and written to it.

    Every call raises ``ClusterUnreachable`` if it does not answer, or what answers is no registry, ``AccessDenied`` if
    it refuses the login, and ``RegistryRefused`` with its own words for anything else.
    """

    def subjects(self) -> list[str]:
        """The names of all subjects, without deleted ones."""

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending, without deleted ones; none if it does not exist."""

    def schema(self, at: SchemaVersion) -> RegisteredSchema:
        """The schema of a version."""

    def places(self, schema_id: int) -> list[SchemaVersion]:
        """The versions that have a schema; none if no schema has that id."""

    def with_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema with an id, under no subject; None if no schema has it. Softly deleted ones have theirs."""

    def with_guid(self, guid: str) -> RegisteredSchema | None:
        """The schema with a GUID, under no subject; None if no schema has it, or the registry knows none."""

    def find(self, schema: RegisteredSchema) -> RegisteredSchema | None:
        """The schema as this registry has it under the same subject, regardless of version and id."""

    def register(self, schema: RegisteredSchema, *, with_id: bool) -> None:
        """Register a schema under its subject, ``with_id`` under its version and its id."""

    def level(self, subject: str) -> str:
        """The subject's compatibility level; "" where it has none of its own."""

    def set_level(self, subject: str, level: str) -> None:
        """Set it."""

    def mode(self, subject: str) -> str:
        """The subject's mode; "" where it has none of its own, or the registry knows none."""

    def set_mode(self, subject: str, mode: str) -> None:
        """Set it."""

    def global_mode(self) -> str:
        """The mode of subjects without one; "" where the registry knows none."""


@contextmanager
def open_registry(cluster: Cluster) -> Iterator[SchemaRegistry]:
    """The schema registry of a cluster.

    Raises:
        ConfigError: its client is not installed, or its properties cannot be used.
    """
    config: dict[str, Any] = dict(cluster.registry_properties())
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigError(
            cluster.origin,
            "schema.registry.url",
            f"needs a package that is not installed ({error.name})",
            advice=EXTRA,
        ) from error
    # It tells each request, at the level of what a run says.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    name = f"the schema registry of {cluster.alias} ({config.get('url', '')})"
    secrets = tuple(secret_values({REGISTRY_PREFIX + key: value for key, value in config.items()}))
    with ExitStack() as files:
        for text, location in _TEXTS.items():
            if pem := config.pop(text, ""):
                config[location] = files.enter_context(memory_file(pem))
        try:
            config["timeout"] = float(config.get("timeout", _TIMEOUT_S))
            client = SchemaRegistryClient(config)
            rest = client._rest_client
            limit_answers(rest.session, config["timeout"])
            if token_client := getattr(rest.bearer_field_provider, "client", None):
                limit_answers(token_client, config["timeout"])
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(
                cluster.origin, "schema.registry", without(str(error), secrets)
            ) from error
    try:
        yield _ConfluentRegistry(client, name, secrets)
    finally:
        client.close()


class _ConfluentRegistry:
    """A ``SchemaRegistry`` that Confluent's client reads and writes."""

    def __init__(self, client: Any, name: str, secrets: tuple[str, ...]) -> None:
        self._client, self._name, self._secrets = client, name, secrets

    def subjects(self) -> list[str]:
        return self._ask(
            "list its subjects", lambda: list_of(str, self._client.get_subjects(), "subject")
        )

    def versions(self, subject: str) -> list[int]:
        doing = f"list the versions of {subject}"
        return self._ask_known(
            doing, lambda: list_of(int, self._client.get_versions(subject), "version"), []
        )

    def schema(self, at: SchemaVersion) -> RegisteredSchema:
        def read() -> RegisteredSchema:
            response = self._client.get_version(at.subject, at.version)
            return schema_of(at, id_of(response.schema_id), response.guid, response.schema)

        return self._ask(f"read {at}", read)

    def places(self, schema_id: int) -> list[SchemaVersion]:
        def read() -> list[SchemaVersion]:
            return sorted(map(version_of, self._client.get_schema_versions(schema_id)))

        if schema_id not in IDS:
            # Asked for what can be no id, some say that the path is unknown, as what is no registry does.
            return []
        return self._ask_known(f"look for the schema {schema_id}", read, [])

    def with_id(self, schema_id: int) -> RegisteredSchema | None:
        def read() -> RegisteredSchema:
            at = SchemaVersion(f"id {schema_id}", 0)
            return schema_of(at, schema_id, None, self._client.get_schema(schema_id))

        if schema_id not in IDS:
            return None
        return self._ask_known(f"read the schema {schema_id}", read, None)

    def with_guid(self, guid: str) -> RegisteredSchema | None:
        def read() -> RegisteredSchema:
            at = SchemaVersion(f"GUID {guid}", 0)
            return schema_of(at, 0, guid, self._client.get_schema_by_guid(guid))

        return self._find(f"look for the schema {guid}", read, None)

    def find(self, schema: RegisteredSchema) -> RegisteredSchema | None:
        subject = schema.at.subject

        def look() -> int:
            response = self._client.lookup_schema(subject, _request_body(schema))
            return require_kind(int, response.version, "version")

        version = self._ask_known(f"look for {schema.at} in it", look, None)
        return None if version is None else self.schema(SchemaVersion(subject, version))

    def register(self, schema: RegisteredSchema, *, with_id: bool) -> None:
        own = {"id": schema.id, "version": schema.at.version} if with_id else {}
        written = _request_body(schema, own)
        subject = schema.at.subject
        self._ask(
            f"register {schema.at}",
            lambda: require_kind(int, self._client.register_schema(subject, written), "id"),
        )

    def level(self, subject: str) -> str:
        doing = f"read the compatibility level of {subject}"
        return self._find(
            doing, lambda: require_kind(str, self._client.get_compatibility(subject), "level"), ""
        )

    def set_level(self, subject: str, level: str) -> None:
        doing = f"set the compatibility level of {subject} to {level}"
        self._ask(doing, lambda: self._client.set_compatibility(subject, level))

    def mode(self, subject: str) -> str:
        doing = f"read the mode of {subject}"
        return self._find(
            doing, lambda: require_kind(str, self._client.get_mode(subject), "mode"), ""
        )

    def set_mode(self, subject: str, mode: str) -> None:
        doing = f"set the mode of {subject} to {mode}"
        self._ask(doing, lambda: self._client.update_mode(subject, mode))

    def global_mode(self) -> str:
        return self._find(
            "read its mode", lambda: require_kind(str, self._client.get_global_mode(), "mode"), ""
        )

    def _find(self, doing: str, ask: Callable[[], _T], otherwise: _U) -> _T | _U:
        """What it answers, and ``otherwise`` where it does not know the thing, or the question."""
        try:
            return self._ask(doing, ask)
        except _Unknown:
            return otherwise

    def _ask_known(self, doing: str, ask: Callable[[], _T], otherwise: _U) -> _T | _U:
        """Ask what every registry can answer: "unknown" counts only in the registry's own words."""
        try:
            return self._ask(doing, ask)
        except _Unknown as error:
            if not error.is_own:
                raise self._no_registry(
                    doing, f"{error.message} says nothing of schemas"
                ) from error
            return otherwise

    def _ask(self, doing: str, ask: Callable[[], _T]) -> _T:
        from confluent_kafka.schema_registry import SchemaRegistryError
        from confluent_kafka.schema_registry.error import OAuthTokenError
        from httpx2 import HTTPError, InvalidURL

        try:
            answer = ask()
            # The client keeps each schema that it has seen, whatever its size; what is asked again is kept by callers.
            self._client.clear_caches()
            return answer
        except SchemaRegistryError as error:
            raise self._refusal(doing, error) from error
        except (HTTPError, OSError) as error:
            raise ClusterUnreachable(
                f"To {doing}, {self._name} was asked and does not answer: {self._mask(error)}.",
                advice="Check schema.registry.url, and that the registry runs.",
            ) from error
        except (AnswerTooLarge, InvalidURL, UnicodeEncodeError) as error:
            # A schema may be too large, and a name that a schema refers to none of an address: the others are not.
            short = excerpt(doing, _LONGEST_SENTENCE)
            raise RegistryRefused(
                f"{self._name[0].upper()}{self._name[1:]} cannot be asked to {short}: {self._mask(error)}."
            ) from error
        except OAuthTokenError as error:
            message = self._mask(error)
            raise AccessDenied(f"There is no token for {self._name}: {message}.") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            # What the client makes of an answer that it does not understand.
            raise self._no_registry(doing, f"{type(error).__name__}: {error}") from error

    def _no_registry(self, doing: str, why: str) -> ClusterUnreachable:
        name = self._name[0].upper() + self._name[1:]
        return ClusterUnreachable(
            f"{name} was asked to {doing}, and does not answer as a schema registry does "
            f"({self._mask(why)}).",
            advice="Check schema.registry.url, and what stands before the registry, such as a proxy.",
        )

    def _mask(self, message: object) -> str:
        """What it says, which may send back what it was sent."""
        shown = without(str(message)[:LOOKED_AT], self._secrets)
        # The token of an endpoint, where no header can hold it, is in the client's own error.
        return excerpt(_BEARER.sub(MASK, shown), _LONGEST_SENTENCE)

    def _refusal(self, doing: str, error: Any) -> FerryError:
        if 300 <= error.http_status_code < 400:
            # A redirect, which would take the login elsewhere.
            why = f"HTTP {error.http_status_code}, a redirect, which is not followed"
            return self._no_registry(doing, why)
        reason = self._mask(error.error_message)
        message = f"{self._name} does not {doing}: {reason} ({error.http_status_code})."
        message = message[0].upper() + message[1:]
        if error.http_status_code in (401, 403):
            return AccessDenied(message, advice="Check the login and the rights of its user.")
        if error.http_status_code in _NO_ANSWER:
            return ClusterUnreachable(message)
        if error.http_status_code == _NOT_FOUND:
            return _Unknown(
                message, is_own=isinstance(error.error_code, int) and error.error_code > 0
            )
        return RegistryRefused(message)


def _request_body(schema: RegisteredSchema, more: Mapping[str, object] | None = None) -> Any:
    """The schema as the client takes it, with ``more`` in its request."""
    from confluent_kafka.schema_registry import Schema

    class Request(Schema):  # type: ignore[misc]
        def to_dict(self) -> dict[str, Any]:
            return {**super().to_dict(), **(more or {})}

    references = [
        {"name": name, "subject": at.subject, "version": at.version}
        for name, at in schema.references
    ]
    request: Any = Request.from_dict(
        {"schema": schema.text, "schemaType": schema.kind, "references": references, **schema.more}
    )
    return request
