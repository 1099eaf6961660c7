"""Whom a flow tells its metrics, and with what it logs in there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.config.files.password_files import read_push_credentials
from kafka_ferry.errors import ConfigError
from tests.unit.plan.builders import a_flow

WORD = "correct-horse-battery-staple"
FILE = "metrics.prometheus.push.credentials.file"


def pushing_to(url: str) -> Flow:
    return a_flow(**{"metrics.prometheus.push.url": url})


def test_nothing_is_told_by_default_and_then_each_partition() -> None:
    flow = a_flow()
    assert flow.metrics_prometheus_dir is None
    assert flow.metrics_prometheus_push_url is None
    assert flow.metrics_detail == "partition"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://gateway:9091", "http://gateway:9091"),
        ("https://gateway/some/path/", "https://gateway/some/path"),
        ("", None),
    ],
)
def test_a_gateways_url_is_where_it_is(url: str, kept: str | None) -> None:
    assert pushing_to(url).metrics_prometheus_push_url == kept


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("gateway:9091", "must begin with http:// or https://"),
        ("http://", "and name a host"),
        (f"http://anna:{WORD}@gateway", "must not hold a user's name or password"),
        (f"http://gateway?token={WORD}", "must end with the path"),
    ],
)
def test_a_url_that_says_more_is_refused_without_a_word_of_it(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        pushing_to(url)
    assert WORD not in str(caught.value)


def credentials(tmp_path: Path, content: str) -> dict[str, str]:
    file = tmp_path / "push.properties"
    file.write_text(content)
    return read_push_credentials(a_flow(**{FILE: str(file)}))


def test_credentials_are_a_name_and_a_password_or_a_token(tmp_path: Path) -> None:
    login = {"username": "anna", "password": WORD}
    assert credentials(tmp_path, f"username=anna\npassword={WORD}\n") == login
    assert credentials(tmp_path, f"token={WORD}\n") == {"token": WORD}
    assert read_push_credentials(a_flow()) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"password={WORD}\n", "must have username and password, or token"),
        (f"username=anna\npassword={WORD}\ntoken={WORD}\n", "and nothing else"),
        ("", "must have username and password"),
        (f"username=\npassword={WORD}\n", "has nothing after username"),
    ],
)
def test_what_is_wrong_with_them_names_the_option_and_no_password(
    tmp_path: Path, content: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        credentials(tmp_path, content)
    assert caught.value.key == FILE
    assert WORD not in str(caught.value)
