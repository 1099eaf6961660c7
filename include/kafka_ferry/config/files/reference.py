"""The reference pages of options and of MirrorMaker 2's keys, made from the code: ``make docs`` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic.fields import FieldInfo

from kafka_ferry.config.client.property_names import CONNECTION_NAMES, IGNORED_CONNECTION_NAMES
from kafka_ferry.config.files.mm2_keys import KEYS, State
from kafka_ferry.config.flow import OPTIONS, Flow

_OPTIONS_HEAD: Final = """\
# Options of a flow

Generated from `kafka_ferry.config.flow`; do not edit. Sizes are bytes, or texts such as `64MiB`.

| Option | Default | Meaning |
| --- | --- | --- |
"""

_KEYS_HEAD: Final = """\
# MirrorMaker 2's keys

Generated from `kafka_ferry.config.files.mm2_keys`; do not edit. These are all keys of MirrorMaker 2 4.3.1, with
their defaults there; `.*` stands for any text after the dot. What an option means here is in
[Options](options.md), and how keys are looked up in [Configuration](../configuration.md). A key without
a meaning here causes a warning with the reason; a key that MirrorMaker 2 does not know either is an
error.
"""

_SECTIONS: Final[Mapping[State, str]] = {
    "supported": """
## Supported

| Key | Default | |
| --- | --- | --- |
""",
    "no meaning here": """
## No meaning here

| Key | Default | Why, or what replaces it |
| --- | --- | --- |
""",
}

# Properties of the source's consumer and of clients, which are in no ConfigDef of MirrorMaker 2.
_OF_CLIENTS: Final = (
    ("{alias}.bootstrap.servers", "required", "as `host:port, host:port`"),
    (
        "{source}.consumer.isolation.level",
        "read_uncommitted",
        "`isolation.level`, with the default read_committed: aborted records are not copied",
    ),
    (
        "{source}.consumer.auto.offset.reset",
        "earliest",
        "`auto.offset.reset`, only for what was never copied; `none` is an error. For deleted "
        "records see `on.source.truncation`",
    ),
    (
        "{alias}.consumer.*, {alias}.producer.*, {alias}.admin.*",
        "the client's",
        "how to connect and log in, buffers, timeouts and back-offs; other properties, including misspelt "
        "ones, cause a warning",
    ),
)

_CONNECTING: Final = """
## To connect and to log in

At the top for all clusters, or after `{alias}.`, `{alias}.consumer.` and so on.

| Key | |
| --- | --- |
"""


def options_page() -> str:
    """The options as Markdown: each with its default and its explanation."""
    fields = {field.alias or name: field for name, field in Flow.model_fields.items()}
    rows = (f"| `{name}` | {_default(fields[name])} | {_cell(fields[name])} |" for name in OPTIONS)
    return _OPTIONS_HEAD + "\n".join(rows) + "\n"


def mirrormaker2_page() -> str:
    """MirrorMaker 2's keys as Markdown: their meaning here, and the reason."""
    parts = [_KEYS_HEAD]
    for state, head in _SECTIONS.items():
        parts += [head, *_rows(state)]
        if state == "supported":
            parts += [f"| `{key}` | `{default}` | {what} |\n" for key, default, what in _OF_CLIENTS]
    parts += [_CONNECTING, *_connection_rows()]
    return "".join(parts)


def _rows(state: State) -> Iterator[str]:
    for name, key in KEYS.items():
        if key.state == state:
            default = _escape(f"`{key.default}`") if key.default != "none" else "none"
            yield f"| `{name}` | {default} | {_escape(key.why)} |\n"


def _connection_rows() -> Iterator[str]:
    supported = sorted(CONNECTION_NAMES - IGNORED_CONNECTION_NAMES.keys())
    for name in supported:
        yield f"| `{name}` | |\n"
    for name, why in sorted(IGNORED_CONNECTION_NAMES.items()):
        yield f"| `{name}` | no effect: {why} |\n"


def _default(field: FieldInfo) -> str:
    default: Any = field.get_default()
    if isinstance(default, tuple):
        default = ", ".join(default)
    if isinstance(default, bool):
        default = str(default).lower()
    text = "" if default is None or default == {} else str(default)
    return _escape(f"`{text}`") if text else "none"


def _cell(field: FieldInfo) -> str:
    return _escape(field.description or "")


def _escape(text: str) -> str:
    # A bar would end the table cell.
    return text.replace("|", r"\|")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "options": options_page,
    "mirrormaker2": mirrormaker2_page,
}
"""The pages by their names in docs/reference."""

if __name__ == "__main__":
    print(PAGES[sys.argv[1]](), end="")
