"""A broker that lets clients in with the tokens of an identity provider, which it checks as Kafka does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_sandbox.logins.secure import Authority, SecureBroker

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_MECHANISM: Final = "oauthbearer"


class TokenBroker(SecureBroker):
    """A ``SecureBroker`` whose SASL listeners offer OAUTHBEARER too.

    A client's principal is the ``sub`` of its token.

    Args:
        directory: as for ``Broker``.
        authority: as for ``SecureBroker``.
        users: as for ``SecureBroker``.
        keys: the URL of the identity provider's key set (JWKS); it must answer before the broker starts.
        audience: for whom tokens must be.
        config: as for ``Broker``.
    """

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        users: Mapping[str, str],
        *,
        keys: str,
        audience: str,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, authority, users)
        self._keys = keys
        offered = self.config["sasl.enabled.mechanisms"]
        self.config |= {"sasl.enabled.mechanisms": f"{offered},{_MECHANISM.upper()}"}
        for listener in ("sasl_ssl", "sasl_plaintext"):
            at = f"listener.name.{listener}.{_MECHANISM}.sasl"
            self.config |= {
                f"{at}.jaas.config": f"{_PACKAGE}.OAuthBearerLoginModule required;",
                f"{at}.server.callback.handler.class": f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
                f"{at}.oauthbearer.jwks.endpoint.url": keys,
                f"{at}.oauthbearer.expected.audience": audience,
            }
        self.config |= dict(config or {})

    @property
    def _jvm_options(self) -> tuple[str, ...]:
        # Since 4.0 Kafka asks no other address, whatever the configuration says.
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys}",)
