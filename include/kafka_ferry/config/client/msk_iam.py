"""Logins to Amazon MSK with AWS's own credentials, as its Java library's properties describe them.

Rules: ``IAMLoginModule``, ``IAMOAuthBearerLoginCallbackHandler`` and ``MSKCredentialProvider`` of
aws-msk-iam-auth. Brokers take the same proof in two forms, and here both become the second: the mechanism
``AWS_MSK_IAM``, which only that library speaks, and OAUTHBEARER.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import regex

from kafka_ferry.config.client.jaas import JAAS, MSK_IAM, module_options
from kafka_ferry.errors import ConfigError

_PACKAGE: Final = "software.amazon.msk.auth.iam."
_MODULES: Final = {
    MSK_IAM: f"{_PACKAGE}IAMLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"
_OF_LOGIN: Final = f"{_PACKAGE}IAMOAuthBearerLoginCallbackHandler"
_OF_CLIENT: Final = f"{_PACKAGE}IAMClientCallbackHandler"
_OPTIONS: Final = {
    "awsProfileName": "profile",
    "awsRoleArn": "role",
    "awsRoleSessionName": "session",
    "awsRoleExternalId": "external_id",
    "awsRoleAccessKeyId": "key_id",
    "awsRoleSecretAccessKey": "secret_key",
    "awsRoleSessionToken": "session_token",
    "awsStsRegion": "sts_region",
}
# The signer and AWS's client decide on these themselves.
_NO_EFFECT: Final = frozenset({"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"})
_REGION: Final = regex.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]*-\d+)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class IamLogin:
    """Whose AWS credentials sign a token, and for which region. Printing it shows no secret.

    Attributes:
        region: the cluster's; "" for the one that AWS's own settings name.
        profile: the profile in AWS's files; "" for the credentials that AWS's client finds.
        role: the ARN of a role to assume, "" for none.
        session: the name of the role's session.
        external_id: what the role's owner requires to be named, "" for nothing.
        key_id: the id of the key that may assume the role; "" for the credentials that AWS's client finds.
        secret_key: that key.
        session_token: what goes with it, if it is a temporary one.
        sts_region: where the role is assumed; "" for the cluster's region.
    """

    region: str = ""
    profile: str = ""
    role: str = ""
    session: str = "aws-msk-iam-auth"
    external_id: str = ""
    key_id: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    sts_region: str = ""


def is_iam(properties: Mapping[str, str]) -> bool:
    """Whether a login is one with AWS's credentials."""
    mechanism = properties.get("sasl.mechanism", "")
    return mechanism == MSK_IAM or (
        mechanism in _MODULES and properties.get(_LOGIN_HANDLER) == _OF_LOGIN
    )


def iam_login(properties: Mapping[str, str], place: str) -> IamLogin:
    """The login with AWS's credentials that Java client properties describe.

    Args:
        properties: the client's properties.
        place: the file and the cluster, for errors.

    Raises:
        ConfigError: the login module, one of its options or a Java class is wrong.
    """
    mechanism = properties["sasl.mechanism"]
    if mechanism == MSK_IAM:
        handler = properties.get(_CLIENT_HANDLER, _OF_CLIENT)
        if handler != _OF_CLIENT:
            reason = f"{handler} is a Java class, which cannot run here; it must be {_OF_CLIENT}"
            raise ConfigError(place, _CLIENT_HANDLER, reason)
    module = _MODULES[mechanism]
    options = module_options(
        properties,
        module,
        place,
        form=f"Its form is: {module} required;",
        known=tuple(_OPTIONS),
        ignored=_NO_EFFECT,
    )
    settings = {field: options[name] for name, field in _OPTIONS.items() if options.get(name)}
    if "profile" in settings and "role" in settings:
        reason = "has awsProfileName and awsRoleArn, of which the Java library takes the profile."
        advice = (
            "Name the role in the profile (role_arn, source_profile), or leave one of them out."
        )
        raise ConfigError(place, JAAS, reason, advice=advice)
    if ("key_id" in settings) != ("secret_key" in settings):
        reason = "needs awsRoleAccessKeyId and awsRoleSecretAccessKey together"
        raise ConfigError(place, JAAS, reason)
    return IamLogin(region=_region(properties.get("bootstrap.servers", "")), **settings)


def _region(servers: str) -> str:
    match = _REGION.search(servers)
    return match[1] if match else ""
