"""Each kind of finding has a proposal with consequences and commands; another tool's copy is never written to."""

from __future__ import annotations

import pytest

from kafka_ferry.audit.comparison.findings import KINDS
from kafka_ferry.audit.proposals import AuditProposal, proposals, sentences
from tests.unit.audit.test_result import DIFFERS, SAME, a_report


def text(proposal: AuditProposal) -> str:
    return "\n".join(sentences(proposal))


def test_there_is_one_for_each_kind_and_topic_and_none_without_findings() -> None:
    assert not proposals(a_report(SAME))
    found = proposals(a_report(SAME, DIFFERS))

    assert [(it.kind, it.records) for it in found] == list(zip(KINDS, (2, 2, 1, 1, 3), strict=True))
    assert {(it.topic, it.remote_topic, it.is_own) for it in found} == {
        ("orders", "eu.orders", False)
    }
    assert [len(it.findings) for it in found] == [1, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "never get the 2 records"),
        ("doubled", "get 2 records more than once"),
        ("reordered", "get 1 record before or after others"),
        ("altered", "get another partition of 1 record"),
        ("foreign", "$ kafka-acls.sh --bootstrap-server <eu> --list --topic eu.orders"),
    ],
)
def test_it_says_what_leaving_it_means(kind: str, said: str) -> None:
    (found,) = [it for it in proposals(a_report(DIFFERS)) if it.kind == kind]

    assert said in text(found)
    assert f"{kind.upper()} " in text(found)


def test_a_copy_of_another_tool_is_copied_next_to_it_and_one_of_a_flow_is_given_up() -> None:
    for other in proposals(a_report(DIFFERS)):
        assert "--source-alias rebuilt" in text(other)
        assert "ferry audit --config rebuild.yaml" in text(other)
        assert "eu.orders is not touched" in text(other)
        assert "ferry repair" not in text(other)
    for own in proposals(a_report(DIFFERS), {"eu.orders"}, "a flow.yaml"):
        assert own.is_own
        assert "$ ferry repair --config 'a flow.yaml' --topic eu.orders --yes" in text(own)
        assert "rebuilt" not in text(own)
