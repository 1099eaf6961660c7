"""``OAUTHBEARER`` in Java client properties: where a client's token comes from, and what goes with it.

Rules: ``OAuthBearerLoginCallbackHandler`` and the classes that it creates (KIP-768, KIP-1139, KIP-1258). A
property wins over the login module's option of the same meaning. The login module's ``ssl.*`` options, and
not the cluster's, are for the token endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import regex

from kafka_ferry.config.client.assertion import (
    ASSERTION_FILE,
    FILES,
    ISSUER,
    Assertion,
    assertion,
    names_client,
)
from kafka_ferry.config.client.jaas import (
    JAAS,
    MSK_IAM,
    OAUTHBEARER,
    Login,
    login_text,
    module_options,
    uses_sasl,
)
from kafka_ferry.config.client.keystores import without_stores
from kafka_ferry.config.client.login_values import CARRIED, LoginFile, LoginValues
from kafka_ferry.config.client.msk_iam import IamLogin, iam_login, is_iam
from kafka_ferry.errors import ConfigError

OAUTH_LOGIN: Final = "oauth_login"
"""The setting that holds an ``OAuthLogin``, for both planes: neither Kafka client knows it."""

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
EXTENSION: Final = "extension_"
"""What a login module's option begins with that becomes a SASL extension."""

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
LOGIN_MODULE: Final = f"{_PACKAGE}OAuthBearerLoginModule"
"""The Java class whose options a ``sasl.jaas.config`` has."""
BY_ASSERTION: Final = f"{_PACKAGE}JwtBearerJwtRetriever"
"""The Java class that gets a token for an assertion."""

_HANDLER: Final = "sasl.login.callback.handler.class"
_CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"
_CLIENT_HANDLERS: Final = (f"{_PACKAGE}internals.OAuthBearerSaslClientCallbackHandler",)
_HANDLERS: Final = tuple(
    f"{_PACKAGE}{package}OAuthBearerLoginCallbackHandler" for package in ("", "secured.")
)
_FROM_FILE: Final = f"{_PACKAGE}FileJwtRetriever"
_FROM_ENDPOINT: Final = f"{_PACKAGE}ClientCredentialsJwtRetriever"
_RETRIEVERS: Final = (
    f"{_PACKAGE}DefaultJwtRetriever",
    _FROM_ENDPOINT,
    _FROM_FILE,
    BY_ASSERTION,
)
# OAuthBearerClientInitialResponse
_EXTENSION_NAME: Final = regex.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = regex.compile(r"[\x21-\x7E \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Renewal:
    """When a token is renewed; the defaults are Java's (``SaslConfigs``).

    Attributes:
        share: after which share of its life.
        jitter: the largest share to add at random.
        buffer_s: at the latest so many seconds before its end, where its life is longer than that.
    """

    share: float = 0.8
    jitter: float = 0.05
    buffer_s: float = 300.0


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """A client's login with OAUTHBEARER; equal logins share a token. Printing it shows no secret.

    Attributes:
        endpoint: the token endpoint's URL, or the URL of a file that holds a token; "" with ``iam``.
        client_id: the client's id at the token endpoint.
        client_secret: its secret there, "" where an assertion proves who it is.
        scope: the scope to ask for, "" for the endpoint's default.
        extensions: names and values of the SASL extensions.
        assertion: where the client's assertion comes from, if it shows one.
        is_jwt_bearer: whether the assertion is all that the client shows (RFC 7523, 2.1), or proves
            who a client with client credentials is (2.2).
        is_encoded: whether id and secret are URL-encoded before they are sent (RFC 6749, 2.3.1).
        tls: the ``ssl.*`` properties of connections to the token endpoint.
        connect_s: the longest time to connect to it, in seconds.
        read_s: the longest time to wait for its answer, in seconds.
        backoff_s: the pause after a first transient failure, in seconds; it doubles with each.
        retry_s: for how many seconds it is asked again.
        renewal: when a token is renewed.
        carried: the token in the file as the driver read it, for machines that lack the file.
        iam: the AWS credentials that sign the token, for Amazon MSK.
        origin: the file and the cluster, for errors.
    """

    endpoint: str
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    assertion: Assertion | None = None
    is_jwt_bearer: bool = False
    is_encoded: bool = False
    tls: tuple[tuple[str, str], ...] = ()
    connect_s: float = 10.0
    read_s: float = 10.0
    backoff_s: float = 0.1
    retry_s: float = 10.0
    renewal: Renewal = Renewal()
    carried: str = ""
    iam: IamLogin | None = None
    origin: str = field(default="", compare=False)

    @property
    def is_file(self) -> bool:
        """Whether the token is in a file."""
        return _is_file(self.endpoint)

    @property
    def token_file(self) -> LoginFile:
        """The file that holds the token, if one does."""
        return LoginFile(_path(self.endpoint), ENDPOINT, self.carried)

    @property
    def shown_endpoint(self) -> str:
        """The endpoint for messages: without a user, a query and a fragment, which may hold secrets."""
        if self.iam:
            return "this machine's AWS credentials"
        url = urlsplit(self.endpoint)
        return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def __repr__(self) -> str:
        return f"OAuthLogin({self.shown_endpoint}, client_id={self.client_id!r})"


def is_oauth(properties: Mapping[str, str]) -> bool:
    """Whether Java client properties say that the client logs in with a token on OAUTHBEARER's wire."""
    return uses_sasl(properties) and properties.get("sasl.mechanism") in (OAUTHBEARER, MSK_IAM)


def oauth_login(properties: Mapping[str, str], file: str) -> OAuthLogin:
    """The login that Java client properties describe for which ``is_oauth`` is true.

    Args:
        properties: the client's properties.
        file: the place to fix, for errors.

    Raises:
        ConfigError: something is missing, wrong, or a Java class that has no counterpart here.
    """
    if is_iam(properties):
        return OAuthLogin("", iam=iam_login(properties, file), origin=file)
    options = _module_options(properties, file)
    _refuse_other_classes(properties, options, file)
    values = LoginValues(properties, options, file)
    endpoint, retriever = _endpoint(properties, file), properties.get(RETRIEVER, _RETRIEVERS[0])
    client_id = secret = ""
    scope = values.text(SCOPE, "scope")
    shown: Assertion | None = None
    if retriever == BY_ASSERTION:
        # Java's retriever does not read the login module's option.
        shown, scope = assertion(values), values.text(SCOPE)
    elif not _is_file(endpoint):
        client_id, secret, shown = _client(values)
    return OAuthLogin(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=secret,
        assertion=shown,
        is_jwt_bearer=retriever == BY_ASSERTION,
        scope=scope,
        extensions=_extensions(options, file),
        is_encoded=properties.get("sasl.oauthbearer.header.urlencode", "").lower() == "true",
        tls=tuple(sorted((key, value) for key, value in options.items() if key.startswith("ssl."))),
        connect_s=values.whole_number("sasl.login.connect.timeout.ms", 10_000) / 1000,
        read_s=values.whole_number("sasl.login.read.timeout.ms", 10_000) / 1000,
        backoff_s=values.whole_number("sasl.login.retry.backoff.ms", 100) / 1000,
        retry_s=values.whole_number("sasl.login.retry.backoff.max.ms", 10_000) / 1000,
        renewal=Renewal(
            values.share("sasl.login.refresh.window.factor", 0.8),
            values.share("sasl.login.refresh.window.jitter", 0.05),
            values.whole_number("sasl.login.refresh.buffer.seconds", 300),
        ),
        carried=options.get(f"{CARRIED}{ENDPOINT}", ""),
        origin=file,
    )


def with_inline_files(properties: Mapping[str, str], place: str) -> dict[str, str]:
    """The properties with which a machine without the login's files and stores gets its tokens.

    The token endpoint's stores are replaced by their content. The content of the files with a token, an
    assertion, a key or a template is added: a machine that has such a file reads that one.

    Raises:
        ConfigError: a store or a file cannot be read, or the login module is wrong.
    """
    if properties.get("sasl.mechanism") != OAUTHBEARER or is_iam(properties):
        return dict(properties)
    options = _module_options(properties, place)
    inline = options
    if any(name.startswith("ssl.") for name in options):
        of_tls = "security.protocol"
        inline = without_stores({**options, of_tls: "SSL"}, f"{place}: {JAAS}")
        del inline[of_tls]
    values = LoginValues(properties, options, place)
    files = [file for key in FILES if (file := values.file(key))]
    if _is_file(properties.get(ENDPOINT, "")):
        files.append(LoginFile(_path(properties[ENDPOINT]), ENDPOINT))
    content = {f"{CARRIED}{file.key}": file.read(place) for file in files}
    if inline is options and not content:
        return dict(properties)
    return {**properties, JAAS: login_text(Login(LOGIN_MODULE, {**inline, **content}))}


def _is_file(url: str) -> bool:
    return urlsplit(url).scheme.lower() == "file"


def _path(url: str) -> str:
    return unquote(urlsplit(url).path)


def _client(values: LoginValues) -> tuple[str, str, Assertion | None]:
    """Id, secret and assertion of a client with client credentials."""
    client_id = values.text(CLIENT_ID, "clientId")
    if names_client(values):
        return client_id, "", assertion(values)
    secret = values.text(CLIENT_SECRET, "clientSecret")
    for key, option, value in (
        (CLIENT_ID, "clientId", client_id),
        (CLIENT_SECRET, "clientSecret", secret),
    ):
        if not value:
            reason = f"is required, or {option} in {JAAS}."
            advice = f"To show an assertion instead, set {ASSERTION_FILE} or {ISSUER}."
            raise ConfigError(values.place, key, reason, advice=advice)
    return client_id, secret, None


def _module_options(properties: Mapping[str, str], file: str) -> dict[str, str]:
    form = f'Its form is: {LOGIN_MODULE} required clientId="..." clientSecret="...";'
    return module_options(properties, LOGIN_MODULE, file, form=form)


def _refuse_other_classes(
    properties: Mapping[str, str], options: Mapping[str, str], file: str
) -> None:
    if any(name.startswith("unsecuredLogin") for name in options):
        reason = "unsecured tokens (unsecuredLogin...) prove nothing and are not supported"
        raise ConfigError(file, JAAS, reason)
    for key, known in (
        (_HANDLER, _HANDLERS),
        (_CLIENT_HANDLER, _CLIENT_HANDLERS),
        (RETRIEVER, _RETRIEVERS),
    ):
        name = properties.get(key, known[0])
        if name not in known:
            reason = f"{name} is a Java class, which cannot run here"
            raise ConfigError(file, key, f"{reason}; it must be one of {', '.join(known)}")


def _endpoint(properties: Mapping[str, str], file: str) -> str:
    endpoint = properties.get(ENDPOINT, "").strip()
    if not endpoint:
        raise ConfigError(file, ENDPOINT, f"is required with {OAUTHBEARER}")
    try:
        url = urlsplit(endpoint)
        is_whole = bool(url.path if url.scheme.lower() == "file" else url.hostname)
        _ = url.port
    except ValueError:
        is_whole = False
    if not is_whole or url.scheme.lower() not in ("http", "https", "file"):
        raise ConfigError(file, ENDPOINT, "must be a URL: https://..., http://... or file:///...")
    wanted = properties.get(RETRIEVER, _RETRIEVERS[0])
    is_file = url.scheme.lower() == "file"
    if (wanted == _FROM_FILE) != is_file and wanted != _RETRIEVERS[0]:
        kind = "file:///..." if wanted == _FROM_FILE else "https://... or http://..."
        raise ConfigError(file, ENDPOINT, f"must be {kind} with {wanted}")
    return endpoint


def _extensions(options: Mapping[str, str], file: str) -> tuple[tuple[str, str], ...]:
    extensions = []
    for option, value in options.items():
        if not option.startswith(EXTENSION):
            continue
        name = option.removeprefix(EXTENSION)
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
            reason = (
                f"{option} is no name of a SASL extension, which has letters only and is not auth"
            )
            raise ConfigError(file, JAAS, reason)
        if not _EXTENSION_VALUE.fullmatch(value):
            reason = f"the value of {option} is empty or not in printable ASCII"
            raise ConfigError(file, JAAS, reason)
        extensions.append((name, value))
    return tuple(sorted(extensions))
