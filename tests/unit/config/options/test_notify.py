"""Whom a flow notifies: by connection, and never by an address that may hold a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.config.options.notify import EVENTS, Channel
from kafka_ferry.errors import ConfigError
from tests.unit.plan.builders import a_flow

WORD = "correct-horse-battery-staple"
CLUSTERS = """
source: {alias: eu, bootstrap.servers: "eu:9092"}
target: {alias: us, bootstrap.servers: "us:9092"}
"""


def notifying(given: Any) -> tuple[Channel, ...]:
    return a_flow(notify=given).notify


def test_no_channel_is_notified_by_default() -> None:
    assert a_flow().notify == ()


def test_a_file_lists_channels_each_with_its_kind_and_connection(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(f"""{CLUSTERS}
notify:
  - {{slack: slack_ops, events: [recovered, failure]}}
  - {{email: smtp_default, to: [ops@example.org, on.call@example.org]}}
  - {{webhook: pager, endpoint: /hooks/kafka, events: loss}}
""")

    assert load_flow(file).notify == (
        Channel("slack", "slack_ops", ("failure", "recovered")),
        Channel("email", "smtp_default", EVENTS, to=("ops@example.org", "on.call@example.org")),
        Channel("webhook", "pager", ("loss",), endpoint="/hooks/kafka"),
    )


def test_a_properties_file_says_it_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
        "a->b.enabled = true\n"
        "a->b.notify = slack:ops, email:smtp_default:ops@example.org, webhook:pager:/hooks\n"
    )

    assert load_flow(file, "a->b").notify == (
        Channel("slack", "ops"),
        Channel("email", "smtp_default", to=("ops@example.org",)),
        Channel("webhook", "pager", endpoint="/hooks"),
    )


def test_what_is_written_is_read_as_the_same() -> None:
    flow = a_flow(notify="slack:ops, email:smtp:a@b.org c@d.org, webhook:pager:/hooks")
    written = flow.model_dump(by_alias=True)["notify"]

    assert notifying(written) == flow.notify


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([{"slack": "a", "webhook": "b"}], "exactly one of slack, email, webhook"),
        ([{"connection": "a"}], "exactly one of slack, email, webhook"),
        ([{"slack": "a", "on": ["loss"]}], "has no on; a channel's keys are"),
        ([{"slack": "a", "events": ["los"]}], "has no event 'los'; events are failure, loss"),
        ([{"slack": "a", "events": []}], "needs as events some of"),
        ([{"email": "a"}], "needs with e-mail whom it is to"),
        ([{"slack": "a", "to": ["a@b.org"]}], "has `to` with slack, and only e-mail has it"),
        ([{"email": "a", "to": ["nobody"]}], "e-mail addresses such as"),
        ([{"slack": "a", "endpoint": "/x"}], "endpoint only with webhook"),
        ([{"webhook": "a", "endpoint": f"/x?token={WORD}"}], "without \\?, # and \\.\\."),
        ([{"webhook": "a", "endpoint": "/hooks/../admin"}], "without \\?, # and \\.\\."),
        ([{"slack": f"https://hooks/{WORD}"}], "by its id, not an address"),
        (f"https://hooks.example.org/{WORD}", "must be text such as kind:connection"),
        (["slack:ops"], "must be a list of mappings"),
        (5, "must be a list of channels"),
        (", ".join(f"slack:ops{n}" for n in range(101)), "has 101 channels, and may have 100"),
        ("slack:ops, slack:ops", "names the channel slack:ops twice"),
    ],
)
def test_what_is_no_channel_is_refused_without_a_secret_in_the_reason(
    given: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        notifying(given)
    assert WORD not in str(caught.value)


def test_a_wrong_channel_of_a_file_is_named_with_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(f"{CLUSTERS}notify: [{{slack: ops, to: [a@b.org]}}]\n")

    with pytest.raises(ConfigError, match=r"flow.yaml:\d+: notify: has `to` with slack"):
        load_flow(file)


def test_flows_with_channels_are_equal_and_travel_between_processes() -> None:
    import pickle  # noqa: PLC0415

    flow: Flow = a_flow(notify="slack:ops")

    assert pickle.loads(pickle.dumps(flow)) == flow
