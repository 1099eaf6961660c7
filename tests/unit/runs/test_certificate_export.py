"""What an export says of its certificates, for people who know neither the flow nor its file."""

from __future__ import annotations

import json

from kafka_ferry.certificates import Certificate
from kafka_ferry.runs.certificate_export import Export
from tests.unit.certificates.builders import a_certificate

RULE = {"fingerprint": "f", "topics": ["users"], "set": {"value.email": "sha2(value.email, 256)"}}


def a_certificate_of(*rules: dict[str, object]) -> Certificate:
    header = a_certificate().header
    ruled = header.model_copy(update={"rules": {**header.rules, "transform": json.dumps(rules)}})
    return Certificate.issued(ruled, [], None)


def test_each_rule_that_changes_records_is_told_once() -> None:
    other = {"fingerprint": "g", "topics": ["a", "b.*"], "where": "key = 'x'"}
    certificates = (a_certificate(), a_certificate_of(RULE), a_certificate_of(RULE, other))
    assert Export(certificates, (), (), 0).rules == (
        ("users", "set: {'value.email': 'sha2(value.email, 256)'}"),
        ("a, b.*", "where: key = 'x'"),
    )
    assert Export((a_certificate(),), (), (), 0).rules == ()
