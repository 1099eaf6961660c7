from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.unit.config.builders import a_flow


@pytest.mark.parametrize("key", ["", "${dir:/run/secrets:ferry.pem}", "${env:FERRY_KEY}"])
def test_the_key_is_a_reference_or_none(key: str) -> None:
    assert a_flow(certificates_key=key).certificates_key == key


@pytest.mark.parametrize("count", [-1, 1, 100])
def test_at_least_the_newest_certificate_is_kept(count: int) -> None:
    assert a_flow(certificates_keep_count=count).certificates_keep_count == count
    with pytest.raises(ValidationError, match="must be 1 or more"):
        a_flow(certificates_keep_count=0)


@pytest.mark.parametrize("key", ["-----BEGIN PRIVATE KEY-----\nabc", "/run/secrets/ferry.pem", "$"])
def test_the_key_itself_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValidationError, match="must be a config provider's reference") as caught:
        a_flow(certificates_key=key)
    assert "abc" not in str(caught.value)
