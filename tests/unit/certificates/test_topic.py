"""Certificates as records of a topic: none of their bytes is passed over."""

from __future__ import annotations

import pytest

from kafka_ferry.certificates import CertificateError, stored_certificates, topic
from kafka_ferry.config import Cluster
from tests.unit.certificates.builders import a_certificate


class TopicsAreThere:
    def __init__(self, _: Cluster) -> None:
        pass

    def unknown(self, _: list[str]) -> set[str]:
        return set()


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """The records of a topic that has one certificate, by their keys."""
    one = a_certificate()
    records = {
        b"left->right/1/0": one.seal_lines(),
        b"left->right/1/1": b"".join(it + b"\n" for it in one.range_lines),
    }
    monkeypatch.setattr(topic, "newest_values", lambda *_: records)
    monkeypatch.setattr(topic, "ClusterControl", TopicsAreThere)
    return records


FLOW = "left->right"
CLUSTER = Cluster(alias="right", properties={"bootstrap.servers": "localhost:1"})


def test_a_certificate_is_read_from_its_records(records: dict[bytes, bytes]) -> None:
    records |= {b"left->else/1/0": b"of another flow", b"left->right/2/1": b"interrupted"}

    assert [one.content() for one in stored_certificates(CLUSTER, "left", FLOW)] == [
        a_certificate().content()
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"left->right/1/1", lambda it: it[:-1], "part 1 does not end with a whole line"),
        (b"left->right/1/0", lambda it: it.replace(b"\n", b"\n{}\n", 1), "lines between"),
        (b"left->right/01/0", lambda _: a_certificate().seal_lines(), "no certificate has"),
        (b"1/1", lambda _: b"{}\n", "no certificate has"),
        (b"left->right/ 1/1", lambda _: b"{}\n", "no certificate has"),
        (b"left->right/+1/1", lambda _: b"{}\n", "no certificate has"),
        (b"left->right/-1/1", lambda _: b"{}\n", "no certificate has"),
    ],
)
def test_a_record_with_other_bytes_is_named(
    records: dict[bytes, bytes], key: bytes, value: object, said: str
) -> None:
    assert callable(value)
    records[key] = value(records.get(key, b""))

    with pytest.raises(CertificateError, match=said):
        stored_certificates(CLUSTER, "left", FLOW)
