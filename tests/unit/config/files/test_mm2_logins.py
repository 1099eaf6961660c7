"""The logins of MirrorMaker 2's files, as docs/security.md shows them, are those of both planes."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import (
    confluent_config,
    kafka_python_config,
    load_flow,
    only_kafka_python_logs_in,
)
from kafka_ferry.config.client.oauth import OAUTH_LOGIN
from kafka_ferry.config.client.property_names import ROLES
from tests import PROJECT

PAGE = (PROJECT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```properties\n(primary\.security.*?)^```", PAGE, re.M | re.S)
ENABLED = """
clusters = primary, backup
primary.bootstrap.servers = b-1.demo.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9098
backup.bootstrap.servers = backup:9092
primary->backup.enabled = true
topics = orders
"""


def mechanism(block: str) -> str:
    (name,) = re.findall(r"sasl\.mechanism = (\S+)", block)
    return name


def test_the_page_shows_every_mechanism() -> None:
    shown = ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "OAUTHBEARER"]
    assert list(map(mechanism, BLOCKS)) == [*shown, "AWS_MSK_IAM", "OAUTHBEARER", "GSSAPI"]


@pytest.mark.parametrize("block", BLOCKS, ids=mechanism)
def test_a_login_works_unchanged(
    block: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(ENABLED + block)
    flow = load_flow(file)
    assert flow.ignored == ()
    spoken = "OAUTHBEARER" if mechanism(block) == "AWS_MSK_IAM" else mechanism(block)
    for role in ROLES:
        properties = flow.source.client_properties(role)
        assert kafka_python_config(properties)["sasl_mechanism"] == spoken
        control = flow.source.control_properties(role)
        # The control plane takes the data plane's connections where librdkafka lacks the login.
        assert only_kafka_python_logs_in(control) == ("tokenauth" in block or spoken == "GSSAPI")
        if not only_kafka_python_logs_in(control):
            assert confluent_config(control, role)["sasl.mechanism"] == spoken
    if not only_kafka_python_logs_in(flow.source.control_properties("admin")):
        config = confluent_config(flow.source.control_properties("admin"), "admin")
        # A client asks for its first token when it is made, and there is no endpoint here.
        config.pop(OAUTH_LOGIN, None)
        AdminClient(config | {"logger": logging.getLogger("quiet"), "log_level": 0})
    assert "ignored" not in caplog.text
