"""The login on a connection: kafka-python's SASL mechanisms, Kerberos, delegation tokens, and OAUTHBEARER."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_ferry.as_json import read_json
from kafka_ferry.config.client.jaas import GSSAPI, OAUTHBEARER, TOKEN_AUTH
from kafka_ferry.config.client.kerberos import KERBEROS_LOGIN
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.oauth import AccessToken, forget_token, token_for
from kafka_ferry.printable import excerpt
from kafka_ferry.secret_values import without
from kafka_ferry.wire.connections.kerberos import (
    REFUSED,
    KerberosExchange,
    require_principal,
)
from kafka_ferry.wire.connections.scram import (
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    check_final,
    check_nonce,
    iterations_of,
)

_TOKEN_EXTENSION: Final = b",tokenauth=true"
_PASSWORD_ADVICE: Final = "Check sasl.mechanism, and name and password in sasl.jaas.config."
_TOKEN_ADVICE: Final = (
    "Check id and HMAC of the delegation token in sasl.jaas.config, and that it has not expired: "
    "kafka-delegation-tokens.sh --describe."
)


def log_in(call: Callable[[Any], Any], address: str, host: str, settings: Mapping[str, Any]) -> int:
    """Log in on a connection, or do so again.

    Args:
        call: sends a request and gives its response.
        address: the broker, for messages.
        host: its host name.
        settings: kafka-python's configuration names, ``OAUTH_LOGIN``, ``KERBEROS_LOGIN`` and ``TOKEN_AUTH``.

    Returns:
        After how many milliseconds the broker ends the session, 0 for never.

    Raises:
        AccessDenied: the broker refuses the login, or the token endpoint gives no token, or the KDC no ticket.
        ClusterUnreachable: the token endpoint or the KDC cannot be reached.
    """
    name = str(settings.get("sasl_mechanism"))
    # Fetched first: brokers give a client little time between its steps.
    token = token_for(settings[OAUTH_LOGIN]) if name == OAUTHBEARER else None
    by_ticket = (
        KerberosExchange(settings[KERBEROS_LOGIN], host, address) if name == GSSAPI else None
    )
    handshake = call(SaslHandshakeRequest(mechanism=name))
    if handshake.error_code:
        raise AccessDenied(
            f"{address} does not offer the SASL mechanism {name}.",
            advice=_advice_on(handshake.mechanisms),
        )
    if token:
        return _show_token(call, address, settings[OAUTH_LOGIN], token)
    if by_ticket:
        lifetime_ms = _prove(call, address, by_ticket, name, REFUSED)
        require_principal(call, address, settings[KERBEROS_LOGIN])
        return lifetime_ms
    is_token = bool(settings.get(TOKEN_AUTH))
    mechanism = (_DelegationToken if is_token else get_sasl_mechanism(name))(host=host, **settings)
    if name.startswith("SCRAM-"):
        mechanism = _Scram(mechanism, address, name)
    advice = _TOKEN_ADVICE if is_token else _PASSWORD_ADVICE
    return _prove(call, address, mechanism, name, advice)


def _advice_on(offered: Sequence[str]) -> str:
    """What to check where a broker offers other mechanisms than the client's; none where its port has no login."""
    if not offered:
        return "It takes no login on this port. Check security.protocol, and the port in bootstrap.servers."
    return f"It offers: {excerpt(', '.join(offered))}. Check sasl.mechanism."


def initial_response(token: AccessToken, extensions: Mapping[str, str]) -> bytes:
    """The client's only message where all goes well (RFC 7628, 3.1)."""
    pairs = "".join(f"\x01{name}={value}" for name, value in extensions.items())
    return f"n,,\x01auth=Bearer {token.text}{pairs}\x01\x01".encode()


def _show_token(
    call: Callable[[Any], Any], address: str, login: OAuthLogin, token: AccessToken
) -> int:
    message = initial_response(token, dict(login.extensions))
    answer = call(SaslAuthenticateRequest(auth_bytes=message))
    challenge = bytes(answer.auth_bytes or b"")
    if not answer.error_code and not challenge:
        return getattr(answer, "session_lifetime_ms", 0)
    forget_token(login, token)
    reason = answer.error_message or challenge.decode(errors="replace")
    if not answer.error_code:
        # The broker waits for this byte before it gives up, and may close the connection at once.
        with suppress(FerryError):
            answer = call(SaslAuthenticateRequest(auth_bytes=b"\x01"))
            reason = answer.error_message or reason
    reason = _status(without(reason, [token.text]))
    advice = f"The token is from {login.shown_endpoint}."
    if token.described:
        advice = f"The token is from {login.shown_endpoint} and {token.described}."
    raise AccessDenied(
        f"{address} refused the login: {reason}.",
        advice=f"{advice} The broker's log says why it refused it.",
    )


def _status(text: str) -> str:
    """What a broker's challenge says, which is JSON (RFC 7628, 3.2.2)."""
    try:
        parsed = read_json(text)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and isinstance(parsed.get("status"), str):
        words = {key: parsed.get(key) for key in ("scope", "openid-configuration")}
        more = [f"{key} {word}" for key, word in words.items() if word and isinstance(word, str)]
        text = ", ".join([parsed["status"], *more])
    return excerpt(text) or "it gives no reason"


class _DelegationToken(SaslMechanismScram):  # type: ignore[misc]
    """SCRAM for a delegation token (KIP-48): the first message says so, as ``ScramSaslClient``'s does."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        names = "sasl_plain_username", "sasl_plain_password", "sasl_mechanism"
        self._scram_client = _TokenExchange(*(config[name] for name in names))


class _TokenExchange(ScramClient):  # type: ignore[misc]
    def first_message(self) -> bytes:
        message = bytes(super().first_message())
        # Both sides sign the whole exchange, this extension too.
        self.auth_message += _TOKEN_EXTENSION
        return message + _TOKEN_EXTENSION


def _prove(call: Callable[[Any], Any], address: str, mechanism: Any, name: str, advice: str) -> int:
    lifetime_ms, what = 0, "its key" if name == GSSAPI else "the password"
    while not mechanism.is_done():
        answer = call(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()))
        if answer.error_code:
            reason = excerpt(answer.error_message or "") or "it gives no reason"
            raise AccessDenied(f"{address} refused the login: {reason}.", advice=advice)
        lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
        try:
            mechanism.receive(bytes(answer.auth_bytes or b""))
        except AccessDenied:
            raise
        except Exception as error:  # value, key and index errors, from parsing any content
            raise AccessDenied(
                f"{address} sent no {name} message, or did not prove that it knows {what}: {error}."
            ) from error
    if not mechanism.is_authenticated():
        raise AccessDenied(f"{address} did not prove that it knows {what} ({name}).")
    return lifetime_ms


class _Scram:
    """A mechanism of kafka-python's, which is given the broker's messages only as RFC 5802 has them."""

    def __init__(self, mechanism: SaslMechanismScram, address: str, name: str) -> None:
        self._mechanism, self._address, self._name = mechanism, address, name
        self._is_first = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)

    def receive(self, message: bytes) -> None:
        """Take the broker's next message.

        Raises:
            AccessDenied: it asks for so few iterations that an impostor could derive the password from the proof, or
                for so many that it only keeps the client busy.
            ValueError: it is none of SCRAM's.
        """
        if not self._is_first:
            check_final(message)
        else:
            self._is_first = False
            iterations = iterations_of(message)
            if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
                raise AccessDenied(
                    f"{self._address} asks for {iterations} iterations of {self._name}; the minimum is "
                    f"{FEWEST_ITERATIONS}, the maximum {MOST_ITERATIONS}.",
                    advice="Set the user's password again with --add-config 'SCRAM-...=[iterations=8192,...]'.",
                )
            check_nonce(message, self._mechanism._scram_client.nonce)
        self._mechanism.receive(message)
