"""Where the login of this machine at an object store goes, by the URI of a state folder. Pure.

Arrow takes the login from the machine: keys, or a token that any host may use to which it is shown. The URI may
name another address than the provider's, and less protection on the way there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

# They show no login that another could use.
_WITHOUT_LOGIN: Final = ("", "file", "hdfs", "viewfs")
_HADOOP: Final = ("hdfs", "viewfs")
_OF_HDFS: Final = ("user", "replication", "buffer_size", "default_block_size")
_AZURE: Final = ("abfs", "abfss")
# A container, or an account's own host, after the container or not.
_OF_AZURE: Final = re.compile(
    r"[a-z0-9$-]*|(?:[a-z0-9$-]+@)?[a-z0-9]{3,24}\.(?:blob|dfs)\.core\.windows\.net"
)
_ADDRESSES: Final = ("endpoint_override", "blob_storage_authority", "dfs_storage_authority")
_HARMLESS: Final = (
    *("region", "location", "project_id", "retry_limit_seconds"),
    *("allow_bucket_creation", "allow_bucket_deletion"),
)


def store_hosts(location: str) -> list[str]:
    """The hosts that a location names instead of the provider's own; none for a path.

    Args:
        location: a path, or a URI as Arrow reads it.
    """
    return [] if _scheme(location) in _WITHOUT_LOGIN else sorted({*_hosts(location)})


def store_options(location: str) -> list[str]:
    """The options of a store, such as ``scheme``, that are for stores at addresses of their own.

    Of HDFS, those that name files of the machine (``kerb_ticket``), or any setting of Hadoop's.
    """
    scheme = _scheme(location)
    if scheme in _WITHOUT_LOGIN and scheme not in _HADOOP:
        return []
    harmless = _OF_HDFS if scheme in _HADOOP else (*_ADDRESSES, *_HARMLESS)
    return sorted({name for name, _ in _options(location)}.difference(harmless))


def _scheme(location: str) -> str:
    return location.partition("://")[0].lower() if "://" in location else ""


def _options(location: str) -> list[tuple[str, str]]:
    return parse_qsl(location.partition("?")[2].replace("#", "&"), keep_blank_values=True)


def _hosts(location: str) -> Iterator[str]:
    for name, value in _options(location):
        if name in _ADDRESSES:
            yield _host(value)
    place = urlsplit(location).netloc.lower()
    # Arrow decodes a host; what is no plain name of Azure's may be anybody's once it is decoded.
    if _scheme(location) in _AZURE and not _OF_AZURE.fullmatch(place):
        yield _host(unquote(place))


def _host(address: str) -> str:
    host, colon, port = address.rpartition(":")
    return host.lower() if colon and port.isdigit() else address.lower()
