"""Notifications of failures, losses and drift, and the Airflow connections that send them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

import regex
from pydantic import Field, GetPydanticSchema
from pydantic_core import core_schema

from kafka_ferry.config.options.base import OptionReach, Options
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.problems import did_you_mean_each

Kind = Literal["slack", "email", "webhook"]
Event = Literal["failure", "loss", "recovered", "deadline", "drift", "warning"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
"""The events that a flow can notify of, the worst first."""

_CONNECTION: Final = r"[A-Za-z0-9_.#!()-]{1,250}"
_ADDRESS: Final = r"[^@\s<>,;:]+@[^@\s<>,;:]+"
_MOST_CHANNELS: Final = 100
_KEYS: Final = (*KINDS, "events", "to", "endpoint")
_TEXT_FORM: Final = "kind:connection, or email:connection:address"


@dataclass(frozen=True, slots=True)
class Channel:
    """One notification channel.

    Attributes:
        kind: the kind of receiver.
        connection: the id of Airflow's connection, which has the address and all secrets.
        events: the events that it gets.
        to: for e-mail, its recipients.
        endpoint: for a webhook, the path below the connection's address.
    """

    kind: Kind
    connection: str
    events: tuple[Event, ...] = EVENTS
    to: tuple[str, ...] = ()
    endpoint: str = ""

    @property
    def name(self) -> str:
        """Its name in logs, unique within the flow."""
        return ":".join(
            filter(None, (self.kind, self.connection, self.endpoint, " ".join(self.to)))
        )


def _channels(value: object) -> tuple[Channel, ...]:
    """Reads the channels of a file: a list of mappings, or text such as ``slack:ops, webhook:pager``."""
    if isinstance(value, str):
        value = [_from_text(item) for item in split_list(value)]
    if not isinstance(value, Sequence):
        raise ValueError(
            f"must be a list of channels, such as [{{slack: ferry_ops}}], or text: {_TEXT_FORM}"
        )
    if len(value) > _MOST_CHANNELS:
        raise ValueError(f"has {len(value):,} channels, and may have {_MOST_CHANNELS}")
    channels = tuple(item if isinstance(item, Channel) else _channel(item) for item in value)
    for name, many in Counter(channel.name for channel in channels).items():
        if many > 1:
            raise ValueError(f"names the channel {name} twice")
    return channels


def _from_text(item: str) -> dict[str, Any]:
    kind, _, rest = item.partition(":")
    connection, _, more = rest.partition(":")
    kind = kind.strip()
    about = {"email": "to", "webhook": "endpoint"}.get(kind, "")
    if kind not in KINDS or (more and not about):
        raise ValueError(f"must be text such as {_TEXT_FORM}")
    return {kind: connection.strip()} | ({about: more.strip()} if more else {})


def _channel(entry: object) -> Channel:
    if not isinstance(entry, Mapping):
        raise ValueError(f"must be a list of mappings, each with one of {', '.join(KINDS)}")
    kinds = [kind for kind in KINDS if kind in entry]
    if len(kinds) != 1:
        near = did_you_mean_each([str(key) for key in entry if key not in _KEYS], KINDS)
        reason = f"needs in each channel exactly one of {', '.join(KINDS)}"
        form = f"{reason} with the id of an Airflow connection, such as {{slack: ferry_ops}}"
        raise ValueError(f"{reason}. {near}" if near else form)
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        raise ValueError(f"has no {', '.join(unknown)}; a channel's keys are {', '.join(_KEYS)}")
    kind = kinds[0]
    return Channel(
        kind,
        _connection(entry[kind]),
        tuple(_events(entry.get("events", EVENTS))),
        _addresses(kind, entry.get("to", ())),
        _endpoint(kind, entry.get("endpoint", "")),
    )


def _connection(connection_id: object) -> str:
    if connection_id is None:
        raise ValueError(
            "must name a connection of Airflow by its id; in YAML, '#' begins a comment"
        )
    if isinstance(connection_id, str) and connection_id.startswith("#"):
        raise ValueError(
            "must name a connection of Airflow by its id, and not a channel of Slack: the connection has the channel"
        )
    # Not quoted: a user who gave an address instead may have written a secret there.
    if not isinstance(connection_id, str) or not regex.fullmatch(_CONNECTION, connection_id):
        raise ValueError("must name a connection of Airflow by its id, not an address")
    return connection_id


def _events(value: object) -> Iterator[Event]:
    words = split_list(value) if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not words:
        raise ValueError(f"needs as events some of {', '.join(EVENTS)}")
    for word in words:
        if word not in EVENTS:
            raise ValueError(f"has no event {word!r}; events are {', '.join(EVENTS)}")
    yield from (event for event in EVENTS if event in words)


def _addresses(kind: Kind, value: object) -> tuple[str, ...]:
    words = regex.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(words, Sequence):
        raise ValueError("needs as `to` a list of e-mail addresses")
    if kind == "email" and not words:
        raise ValueError(
            "needs with e-mail whom it is to: {email: CONNECTION, to: [ops@example.org]}, with the id of an Airflow "
            "connection"
        )
    if kind != "email" and words:
        raise ValueError(f"has `to` with {kind}, and only e-mail has it")
    for word in words:
        if not isinstance(word, str) or not regex.fullmatch(_ADDRESS, word):
            raise ValueError("needs as `to` e-mail addresses such as ops@example.org")
    return tuple(words)


def _endpoint(kind: Kind, endpoint: object) -> str:
    if endpoint and kind != "webhook":
        raise ValueError("has an endpoint only with webhook")
    # The part after a question mark is often a token, which belongs in the connection.
    if not isinstance(endpoint, str) or not regex.fullmatch(r"(?!.*\.\.)[\w./~-]*", endpoint):
        raise ValueError("needs as endpoint a path such as /hooks/kafka, without ?, # and ..")
    return endpoint


def _as_file(channels: Sequence[Channel]) -> list[dict[str, Any]]:
    """The channels as a file's list, which gives the same channels when read."""
    return [
        {channel.kind: channel.connection, "events": list(channel.events)}
        | ({"to": list(channel.to)} if channel.to else {})
        | ({"endpoint": channel.endpoint} if channel.endpoint else {})
        for channel in channels
    ]


def _schema(*_: object) -> core_schema.CoreSchema:
    return core_schema.no_info_plain_validator_function(
        _channels, serialization=core_schema.plain_serializer_function_ser_schema(_as_file)
    )


def _json_schema(*_: object) -> dict[str, Any]:
    """The schema for editors, as strict as possible."""
    connection = {"type": "string", "pattern": f"^{_CONNECTION}$"}
    words = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
    events = {"type": "array", "items": {"enum": list(EVENTS)}, "minItems": 1}
    shared = {"events": {"anyOf": [events, {"type": "string"}]}}
    more: dict[Kind, dict[str, Any]] = {
        "slack": {},
        "email": {"to": words},
        "webhook": {"endpoint": {"type": "string"}},
    }
    kinds = [
        {
            "type": "object",
            "properties": {kind: connection, **shared, **more[kind]},
            "required": [kind, "to"] if kind == "email" else [kind],
            "additionalProperties": False,
        }
        for kind in KINDS
    ]
    return {"anyOf": [{"type": "array", "items": {"anyOf": kinds}}, {"type": "string"}]}


class NotifyOptions(Options):
    """The options of a flow about notifications."""

    notify: Annotated[
        tuple[Channel, ...], GetPydanticSchema(_schema, _json_schema), OptionReach("connection")
    ] = Field(
        default=(),
        description="The channels that Airflow notifies about runs, each with slack, email or webhook and "
        "the id of Airflow's connection; events selects events (failure, loss, recovered, deadline, drift, "
        "warning; all by default), to lists an e-mail's recipients, endpoint is a webhook's path. In properties "
        "files: slack:connection, email:connection:address, webhook:connection:path.",
    )
