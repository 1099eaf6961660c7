"""A record's key, value and headers, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import MalformedBatch
from kafka_ferry.batches.record_format.content import (
    Content,
    divide_content,
    encoded_headers,
    headers_of,
    join_content,
    key_value_of,
    read_content,
    read_headers,
    with_headers,
)

_FIELD = st.none() | st.binary(max_size=200)
CONTENTS = st.builds(
    Content,
    _FIELD,
    _FIELD,
    st.lists(st.tuples(st.binary(max_size=9), _FIELD), max_size=4).map(tuple),
)


@given(CONTENTS)
def test_what_is_written_is_read(content: Content) -> None:
    encoded = content.encode()

    assert read_content(encoded) == content
    assert headers_of(encoded) == encoded_headers(content.headers)
    assert read_headers(headers_of(encoded)) == content.headers
    assert join_content(*divide_content(encoded)) == encoded
    assert key_value_of(encoded) == (content.key, content.value)
    assert read_content(with_headers(encoded, [("more", b"1")])) == content._replace(
        headers=(*content.headers, (b"more", b"1"))
    )


@given(CONTENTS, st.data())
def test_what_is_cut_off_is_refused(content: Content, data: st.DataObject) -> None:
    encoded = content.encode()
    with pytest.raises(MalformedBatch):
        read_content(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(MalformedBatch):
        read_content(encoded + b"\0")
