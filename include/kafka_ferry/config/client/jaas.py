"""``sasl.jaas.config``: a Java client's login, parsed as Kafka does.

Rules: ``org.apache.kafka.common.security.JaasConfig``, which sets up Java's ``StreamTokenizer``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import regex

from kafka_ferry.config.client.login_values import CARRIED
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.errors import ConfigError

_TOKEN: Final = regex.compile(
    # White space; comments, which even a single slash begins. As in Java, the end closes one too: to look for what
    # closes each of many takes the square of the text's length.
    r"[\x00-\x20]+|/\*.*?(?:\*/|\Z)|//?[^\n\r]*"
    r'|"(?P<double>(?:[^"\\\n\r]|\\.)*)"'
    r"|'(?P<single>(?:[^'\\\n\r]|\\.)*)'"
    r"|(?P<sign>[;=])"
    r"|(?P<word>[^\x00-\x20\"'/;=]+)",
    regex.DOTALL,
)
_ESCAPE: Final = regex.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", regex.DOTALL)
_ESCAPED: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
JAAS: Final = "sasl.jaas.config"
LOGIN_FORM: Final = 'Its form is: <login module> required username="..." password="...";'
"""The advice where a login cannot be read."""

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

_SCRAM_MODULE: Final = "ScramLoginModule"
LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM_MODULE,
    "SCRAM-SHA-512": _SCRAM_MODULE,
}
"""The mechanisms with a name and a password, each with the Java class whose options it has."""

TOKEN_AUTH: Final = "sasl_token_auth"
"""The data plane's setting that says that its credentials are a delegation token."""

OAUTHBEARER: Final = "OAUTHBEARER"
"""The mechanism with a token: see ``config.client.oauth``."""

MSK_IAM: Final = "AWS_MSK_IAM"
"""Amazon MSK's mechanism: see ``config.client.msk_iam``."""

GSSAPI: Final = "GSSAPI"
"""Kerberos, Java's default: see ``config.client.kerberos``."""

MECHANISMS: Final = (*LOGIN_MODULES, OAUTHBEARER, MSK_IAM, GSSAPI)
"""The supported mechanisms."""


class JaasError(ValueError):
    """The text is not a login; the message repeats nothing of it, since it holds a password."""


class Login(NamedTuple):
    """A login module and its options."""

    module: str
    options: dict[str, str]

    def is_of(self, module: str) -> bool:
        """Whether it is a login module of this class; packages do not count."""
        return self.module.rpartition(".")[2] == module.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"Login(module={self.module!r}, options={sorted(self.options)})"


class _Token(NamedTuple):
    text: str
    is_sign: bool


class Credentials(NamedTuple):
    """A client's credentials.

    Attributes:
        mechanism: one of ``LOGIN_MODULES``.
        username: the user's name, or the id of a delegation token.
        password: the user's password, or the token's HMAC.
        is_token: whether it is a delegation token (KIP-48).
    """

    mechanism: str
    username: str
    password: str
    is_token: bool = False

    @property
    def escaped(self) -> str:
        """The user name as SCRAM sends it (RFC 5802, saslname), which kafka-python leaves to others."""
        if not self.mechanism.startswith("SCRAM"):
            return self.username
        return self.username.replace("=", "=3D").replace(",", "=2C")

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism})"


def uses_sasl(properties: Mapping[str, str]) -> bool:
    """Whether the protocol of Java client properties has a login."""
    return properties.get("security.protocol", "").upper().startswith("SASL_")


def credentials(properties: Mapping[str, str], protocol: str, file: str) -> Credentials | None:
    """User name and password in Java client properties; nothing where there is no SASL.

    Raises:
        ConfigError: mechanism or login are missing, wrong or not supported.
    """
    if not protocol.startswith("SASL_"):
        return None
    mechanism = properties.get("sasl.mechanism", GSSAPI)  # Java's default
    if mechanism not in LOGIN_MODULES:
        reason = f"{mechanism} is not supported; it must be one of {', '.join(MECHANISMS)}"
        raise ConfigError(file, "sasl.mechanism", reason)
    if JAAS not in properties:
        raise ConfigError(file, JAAS, f"is required with {protocol}")
    try:
        login = parse_login(properties[JAAS])
        return Credentials(mechanism, *_name_and_password(login, mechanism), _is_token(login))
    except JaasError as error:
        raise ConfigError(file, JAAS, f"{error}.", advice=LOGIN_FORM) from None


def wrong_credentials(properties: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the login in Java client properties whose protocol has one, before any file is read."""
    mechanism = properties.get("sasl.mechanism", GSSAPI)
    form = LOGIN_FORM.replace("<login module>", LOGIN_MODULES.get(mechanism, "<login module>"))
    if JAAS not in properties:
        if "sasl.mechanism" not in properties:
            reason = f"is required with {properties['security.protocol']}"
            yield Problem("sasl.mechanism", reason, f"Set it to one of {', '.join(MECHANISMS)}.")
        elif mechanism in LOGIN_MODULES:
            yield Problem(JAAS, f"is required with {mechanism}", form)
        return
    try:
        login = parse_login(properties[JAAS])
        if mechanism in LOGIN_MODULES:
            _name_and_password(login, mechanism)
    except JaasError as error:
        yield Problem(JAAS, str(error), form)
        return
    meant = [name for name, module in LOGIN_MODULES.items() if login.is_of(module)]
    if "sasl.mechanism" not in properties and meant:
        yield Problem("sasl.mechanism", f"is required: {login.module} is for {' or '.join(meant)}")


def jaas_config(mechanism: str, username: str, password: str) -> str:
    """A ``sasl.jaas.config`` for user name and password.

    Raises:
        JaasError: the mechanism has no login of that kind here.
    """
    if mechanism not in LOGIN_MODULES:
        raise JaasError(f"{mechanism} is not supported")
    name, word = (_quote(text) for text in (username, password))
    return f"{LOGIN_MODULES[mechanism]} required username={name} password={word};"


def login_text(login: Login) -> str:
    """A ``sasl.jaas.config`` for a login module and its options."""
    options = (f"{_quote(name)}={_quote(value)}" for name, value in login.options.items())
    return f"{' '.join([login.module, 'required', *options])};"


def _quote(text: str) -> str:
    """``text`` as a quoted token; line ends and backslashes would end it or mean something else."""
    return '"' + "".join(f"\\{ord(c):03o}" if c in '\\"\n\r' else c for c in text) + '"'


def login_name(properties: Mapping[str, str]) -> str | None:
    """The user name in Java client properties; None where there is none, or it cannot be read.

    A delegation token does not say whose it is.
    """
    try:
        login = parse_login(properties.get(JAAS, ""))
    except JaasError:
        return None
    return None if _is_token(login) else login.options.get("username")


def is_delegation_token(properties: Mapping[str, str]) -> bool:
    """Whether Java client properties have a login with a delegation token."""
    try:
        login = parse_login(properties.get(JAAS, ""))
    except JaasError:
        return False
    return uses_sasl(properties) and _is_token(login)


def _is_token(login: Login) -> bool:
    """As ``ScramLoginModule`` decides; no other login module has that option."""
    return login.is_of(_SCRAM_MODULE) and login.options.get("tokenauth", "").lower() == "true"


def _name_and_password(login: Login, mechanism: str) -> tuple[str, str]:
    wanted = LOGIN_MODULES[mechanism]
    if not login.is_of(wanted):
        raise JaasError(f"{mechanism} needs the login module {wanted}")
    if not {"username", "password"} <= login.options.keys():
        raise JaasError("username and password are required")
    return login.options["username"], login.options["password"]


def parse_login(text: str) -> Login:
    """The one login module of a ``sasl.jaas.config``.

    Raises:
        JaasError: it is not of the form ``Module required name="value" ...;``.
    """
    login = _parse(text)
    if isinstance(login, str):
        raise JaasError(login)
    return login._replace(options=dict(login.options))


# Each flow of a file reads one that they share several times, also one that is wrong.
@lru_cache(maxsize=16)
def _parse(text: str) -> Login | str:
    """The login module, or what is wrong."""
    try:
        return _login_of(_tokens(text))
    except JaasError as error:
        return str(error)


def _login_of(tokens: Iterator[_Token]) -> Login:
    module = _word(tokens, "a login module")
    if _word(tokens, "'required' after the login module").lower() not in _FLAGS:
        raise JaasError("'required' must follow the login module")
    options: dict[str, str] = {}
    while not (token := _next(tokens, "a semicolon at its end")).is_sign:
        if _next(tokens, "'=' after an option's name") != _Token("=", True):
            raise JaasError('each option needs the form name="value"')
        options[token.text] = _word(tokens, "a value after each '='")
    if token.text != ";":
        raise JaasError("an option's name is missing before '='")
    if next(tokens, None) is not None:
        raise JaasError("it must hold one login module only")
    return Login(module, options)


def module_options(
    properties: Mapping[str, str],
    module: str,
    place: str,
    *,
    form: str,
    known: Sequence[str] = (),
    ignored: Container[str] = (),
) -> dict[str, str]:
    """The login module's options in Java client properties; none where there is no ``sasl.jaas.config``.

    Args:
        properties: the client's properties.
        module: the Java class that the mechanism needs.
        place: the file and the cluster, for errors.
        form: what such a text looks like, as advice.
        known: the options that it may have; any where empty.
        ignored: those that it may have without effect.

    Raises:
        ConfigError: it is not a login of that class, or has another option.
    """
    if JAAS not in properties:
        return {}
    try:
        login, mechanism = parse_login(properties[JAAS]), properties.get("sasl.mechanism", GSSAPI)
        if not login.is_of(module):
            raise JaasError(f"{mechanism} needs the login module {module}")
        for name in login.options if known else ():
            if name not in known and name not in ignored and not name.startswith(CARRIED):
                raise JaasError(f"{name} is not one of this login's options: {', '.join(known)}")
    except JaasError as error:
        raise ConfigError(place, JAAS, f"{error}.", advice=form) from None
    return login.options


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quote is not closed")
        position = match.end()
        if match.lastgroup in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescape, match[match.lastgroup]), is_sign=False)
        elif match.lastgroup is not None:
            yield _Token(match[0], is_sign=match.lastgroup == "sign")


def _unescape(escape: Any) -> str:
    code = str(escape[1])
    if code.isdigit() and code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPED.get(code, code)


def _next(tokens: Iterator[_Token], expected: str) -> _Token:
    token = next(tokens, None)
    if token is None:
        raise JaasError(f"it lacks {expected}")
    return token


def _word(tokens: Iterator[_Token], expected: str) -> str:
    token = _next(tokens, expected)
    if token.is_sign:
        raise JaasError(f"it lacks {expected}")
    return token.text
