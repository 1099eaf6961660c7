"""Messages that kafka-python lacks, described like its own in a JSON file each (KIP-932)."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    """The class of the message that the file ``{name}.json`` here describes."""
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=__name__)


DescribeShareGroupOffsetsRequest: Final = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse: Final = _message("DescribeShareGroupOffsetsResponse")
AlterShareGroupOffsetsRequest: Final = _message("AlterShareGroupOffsetsRequest")
AlterShareGroupOffsetsResponse: Final = _message("AlterShareGroupOffsetsResponse")
DeleteShareGroupOffsetsRequest: Final = _message("DeleteShareGroupOffsetsRequest")
DeleteShareGroupOffsetsResponse: Final = _message("DeleteShareGroupOffsetsResponse")
