"""Tokens for Amazon MSK: a URL that the client's AWS credentials have signed, as AWS's own library makes it.

The library is an extra, ``kafka-ferry[msk]``. It signs on this machine: only a role is
assumed over the network.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Final

from kafka_ferry.config.client.msk_iam import IamLogin
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.printable import excerpt

_KEY: Final = "sasl.mechanism"
_INSTALL: Final = (
    "Install it (the extra msk of kafka-ferry) where the flow's tasks run, and for Spark's executors: "
    "pip install aws-msk-iam-sasl-signer-python."
)
_FIND: Final = (
    "Each machine that runs a part of the flow, Spark's executors too, needs credentials of its own: "
    "those of its instance or container, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile."
)


def msk_token(login: IamLogin, place: str) -> tuple[str, float]:
    """A token for a cluster of Amazon MSK.

    Args:
        login: whose credentials sign it.
        place: the file and the cluster, for errors.

    Returns:
        The token, and when it expires, in seconds since 1970.

    Raises:
        AccessDenied: there are no credentials, or they may not assume the role.
        ClusterUnreachable: AWS cannot be asked for credentials.
        ConfigError: AWS's library is not installed, or no setting names the region or the profile.
    """
    try:
        import boto3
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore import exceptions
        from botocore.credentials import CredentialProvider
    except ImportError:
        reason = "needs the package aws-msk-iam-sasl-signer-python for Amazon MSK's IAM."
        raise ConfigError(place, _KEY, reason, advice=_INSTALL) from None

    class Found(CredentialProvider):  # type: ignore[misc]
        """The credentials of this login; the library could not name a region to assume its role in."""

        def load(self) -> Any:
            return credentials

    # While it debugs, AWS's client logs signatures, and the keys that come with a role.
    if (log := logging.getLogger("botocore")).getEffectiveLevel() < logging.INFO:
        log.setLevel(logging.INFO)
    try:
        session = _session(boto3, login)
        region = _region(login, session, place)
        credentials = _credentials(session, login, region, place)
        signer = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider
        token, expiry_ms = signer(region, Found())
    except (exceptions.ProfileNotFound, exceptions.ParamValidationError) as error:
        reason = f"AWS's client says: {excerpt(str(error))}"
        raise ConfigError(place, "sasl.jaas.config", reason) from None
    except (exceptions.BotoCoreError, exceptions.ClientError) as error:
        raise _as_error(error, place, exceptions) from None
    except FerryError:
        raise
    except Exception as error:
        # Whatever the client makes of an answer that it does not understand; it may repeat the keys in it.
        reason = f"{place}: what was asked for AWS's credentials does not answer as AWS does"
        raise ClusterUnreachable(
            f"{reason} ({type(error).__name__}).",
            advice="Check AWS_ENDPOINT_URL_STS, and what stands before STS, such as a proxy.",
        ) from None
    return token, expiry_ms / 1000


def _session(boto3: Any, login: IamLogin) -> Any:
    return boto3.Session(
        aws_access_key_id=login.key_id or None,
        aws_secret_access_key=login.secret_key or None,
        aws_session_token=login.session_token or None,
        profile_name=login.profile or None,
    )


def _region(login: IamLogin, session: Any, place: str) -> str:
    # Java's library reads the first, and boto3 the second or the profile's.
    region = login.region or os.environ.get("AWS_REGION") or session.region_name
    if not region:
        reason = "must be the hosts' names at amazonaws.com, which name the region."
        advice = "Or set AWS_REGION to the cluster's region, on Spark's executors too."
        raise ConfigError(place, "bootstrap.servers", reason, advice=advice)
    return str(region)


def _credentials(session: Any, login: IamLogin, region: str, place: str) -> Any:
    if login.role:
        request = {"RoleArn": login.role, "RoleSessionName": login.session}
        if login.external_id:
            request["ExternalId"] = login.external_id
        client = session.client("sts", region_name=login.sts_region or region)
        role_credentials = client.assume_role(**request)["Credentials"]
        session = type(session)(
            aws_access_key_id=role_credentials["AccessKeyId"],
            aws_secret_access_key=role_credentials["SecretAccessKey"],
            aws_session_token=role_credentials["SessionToken"],
        )
    credentials = session.get_credentials()
    if credentials is None:
        raise AccessDenied(f"{place}: AWS's client finds no credentials.", advice=_FIND)
    return credentials.get_frozen_credentials()


def _as_error(error: Exception, place: str, exceptions: Any) -> FerryError:
    reason = f"{place}: AWS gives no credentials: {excerpt(str(error))}."
    passing = (exceptions.HTTPClientError, exceptions.ConnectionError)
    if isinstance(error, passing):
        return ClusterUnreachable(reason, advice="Check that this machine reaches AWS's STS.")
    return AccessDenied(reason, advice=_FIND)
