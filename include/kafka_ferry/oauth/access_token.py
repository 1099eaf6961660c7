"""An access token: its text, which nothing shows, and its life."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import regex

from kafka_ferry.as_json import read_json
from kafka_ferry.printable import printable

# RFC 6750, 2.1: anything else would end the token in the middle of the login's message.
_TOKEN: Final = regex.compile(r"[A-Za-z0-9\-._~+/]+=*")
_LONGEST: Final = 100
NEVER: Final = 2**53
"""No time is so far away, in seconds."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token and its life, in seconds since 1970.

    Attributes:
        text: the token.
        renew_at: from when on another one is to be fetched.
        expires_at: its end.
    """

    text: str = field(repr=False)
    renew_at: float
    expires_at: float

    @property
    def described(self) -> str:
        """What a JWT says of itself that a broker checks, to follow "the token"; "" of other tokens."""
        claims = claims_of(self.text)
        words = {name: claims[key] for key, name in _CHECKED.items() if key in claims}
        clauses = [f"has the {name} {value}" for name, value in words.items() if _is_plain(value)]
        shown = printable(", ".join(clauses))
        return shown if len(shown) <= 3 * _LONGEST else ""


_CHECKED: Final = {"iss": "issuer", "aud": "audience", "exp": "expiry"}


def _is_plain(value: Any) -> bool:
    """Whether it is a word or a number, or a list of words: anything else may be nested too deep to be shown."""
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | int | float)


def is_token(text: str) -> bool:
    """Whether the text can be sent as a token at all."""
    return _TOKEN.fullmatch(text) is not None


def claims_of(text: str) -> Mapping[str, Any]:
    """The claims of a JWT, unverified; none of a token of another kind."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = read_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}


def expiry_of(text: str) -> float | None:
    """When a JWT expires, in seconds since 1970; None of other tokens."""
    expiry = claims_of(text).get("exp")
    # Numbers of JSON have no bounds.
    if not isinstance(expiry, int | float) or not 0 <= expiry < NEVER:
        return None
    return float(expiry)
