"""Kerberos where its package is missing, and where it speaks of what no KDC here can be made to say."""

from __future__ import annotations

import sys

import pytest

from kafka_ferry.config.client.kerberos import KerberosLogin
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError
from kafka_ferry.kerberos import credentials_for, kerberos_fault

LOGIN = KerberosLogin("f.yaml: primary", "kafka", "ann@R", "/k/ann.keytab")
BASE = 2**32 - 1765328384


class Raised(Exception):
    """As ``gssapi.exceptions.GSSError`` prints itself."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"Major (851968): Unspecified GSS failure, Minor ({BASE + code}): {said}")
        self.min_code = BASE + code


def test_a_missing_package_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="needs the package gssapi") as raised:
        credentials_for(LOGIN)
    assert raised.value.key == "sasl.mechanism"
    assert "pip install gssapi" in raised.value.advice


@pytest.mark.parametrize(
    ("code", "said", "kind", "advice"),
    [
        (37, "Clock skew too great", AccessDenied, "Synchronize the clocks"),
        (18, "Client's credentials have been revoked", AccessDenied, "locked the principal"),
        (23, "Password has expired", AccessDenied, "make a new key tab"),
        (154, "Cannot find KDC for realm 'R'", AccessDenied, "krb5.conf"),
        (156, "Cannot contact any KDC for realm 'R'", ClusterUnreachable, "the KDC runs"),
        (12, "KDC policy rejects request", AccessDenied, "Check principal and keyTab"),
    ],
)
def test_what_kerberos_says_is_told_with_what_to_do(
    code: int, said: str, kind: type[Exception], advice: str
) -> None:
    error = kerberos_fault(Raised(code, said), "f.yaml: primary: no Kerberos tickets", LOGIN)
    assert type(error) is kind
    assert error.message == f"f.yaml: primary: no Kerberos tickets: {said}."
    assert advice in error.advice
