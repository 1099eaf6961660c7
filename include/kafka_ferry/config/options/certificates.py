"""Whether runs leave certificates of what they have proved, and with which key they are signed."""

from __future__ import annotations

from typing import Final

from pydantic import Field, field_validator

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.values import Number, Truth

CERTIFICATES_KEY: Final = "certificates.key"
"""The only option besides clients' properties in which references of config providers are looked up."""


class CertificateOptions(Options):
    """The options of a flow about its certificates."""

    certificates_enabled: Truth = Field(
        default=False,
        description="Whether each run that has proved something leaves a certificate of it on the target, in the "
        "topic ferry-certificates.{source}.internal, and in the state folder. Once it is on, `ferry run --verify-all` "
        "certifies what was copied before.",
    )
    certificates_key: str = Field(
        default="",
        description="The private Ed25519 key that signs certificates, in PEM without a password, as a config "
        "provider's reference, such as ${dir:/run/secrets:ferry.pem}: the file itself never holds it. Without "
        "a key, certificates are chained but not signed.",
    )

    certificates_keep_days: Number = Field(
        default=-1,
        ge=-1,
        description="How many days certificates are kept, on the target and in the state folder; -1 for ever. The "
        "next certificate records until where the chain was pruned. The newest one is always kept.",
    )
    certificates_keep_count: Number = Field(
        default=-1,
        ge=-1,
        description="How many certificates are kept at most, the newest ones; -1 for any number.",
    )

    @field_validator("certificates_keep_count")
    @classmethod
    def _keeps_the_newest(cls, count: int) -> int:
        if count == 0:
            raise ValueError(
                "must be 1 or more, or -1 for any number: the next one follows the newest"
            )
        return count

    @field_validator("certificates_key")
    @classmethod
    def _is_a_reference(cls, key: str) -> str:
        if key and not (key.startswith("${") and key.endswith("}")):
            raise ValueError(
                "must be a config provider's reference, such as ${dir:/run/secrets:ferry.pem}"
            )
        return key
