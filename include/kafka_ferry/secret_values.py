"""Keeps secrets out of every sentence, in whichever form they were printed.

A process remembers the secrets that it looks up. Sentences of errors, lines of logs, and what dead letters and
reports say of a record pass ``masked``; what a user's function or a server says passes ``without``, with the
secrets that it was given.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "******"

# Shorter ones are words of any sentence: only what was given them is searched for them.
_SHORTEST: Final = 4
# Up to this length, a secret may be a part of a common word, and counts as a word of its own.
_SHORT: Final = 7
# What is left of a base64 text whose first and last characters depend on what is beside the secret.
_SHORTEST_BASE64: Final = 8
_LONG_LINE: Final = 16
# A byte of a URL, whose digits are written in either case.
_ENCODED: Final = re.compile(r"%[0-9A-F]{2}")
_known: dict[str, None] = {}


def remember(secrets: Iterable[str]) -> None:
    """Let ``masked`` know further secrets of this process."""
    _known.update(dict.fromkeys(secret for secret in secrets if len(secret) >= _SHORTEST))


def mask(text: str) -> str:
    """The text without any secret that this process has looked up."""
    return _replace(text, tuple(_known), whole_words=True) if _known else text


def without(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, however short, and without those that ``masked`` knows."""
    return mask(_replace(text, tuple(filter(None, secrets)), whole_words=False))


def _replace(text: str, secrets: tuple[str, ...], *, whole_words: bool) -> str:
    if not secrets:
        return text
    return _pattern(secrets, whole_words).sub(MASK, text)


@lru_cache(maxsize=64)
def _pattern(secrets: tuple[str, ...], whole_words: bool) -> re.Pattern[str]:
    """What finds each form of the secrets, the longest first: one may be a part of another."""
    pattern_by_form: dict[str, str] = {}
    for secret in secrets:
        for form in _forms(secret):
            escaped = re.escape(form)
            escaped = _ENCODED.sub(r"(?i:\g<0>)", escaped)
            if whole_words and len(form) <= _SHORT:
                escaped = rf"(?<![^\W_]){escaped}(?![^\W_])"
            pattern_by_form[form] = escaped
    return re.compile(
        "|".join(pattern_by_form[form] for form in sorted(pattern_by_form, key=len, reverse=True))
    )


def _forms(secret: str) -> Iterator[str]:
    """The secret in each form in which Python, JSON, HTTP and HTML print it; of several lines, also each long one."""
    lines = secret.splitlines()
    long_lines = [line for line in lines if len(line) >= _LONG_LINE] if len(lines) > 1 else []
    for part in (secret, *long_lines):
        content = part.encode(errors="surrogatepass")
        for printed in _printed_forms(part):
            yield printed
            yield from _printed_forms(printed)
        yield from _quoted_forms(repr(b"'\"" + content), 5)
        yield html.escape(part)
        yield from (quote(content), quote(content, safe=""), quote_plus(content))
        yield content.hex()
        yield from _in_base64(content)


def _printed_forms(text: str) -> Iterator[str]:
    """A text as it is, and as Python and JSON write it between quotes of either kind."""
    yield text
    yield repr(f'"{text}')[2:-1]
    for write in (repr, ascii):
        yield from _quoted_forms(write(f"'\"{text}"), 4)
    yield from (json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))


def _quoted_forms(written: str, begin: int) -> Iterator[str]:
    """What is between the quotes from ``begin`` on, with and without backslashes before single quotes."""
    inner = written[begin:-1]
    yield inner
    yield inner.replace("\\'", "'")


def _in_base64(content: bytes) -> Iterator[str]:
    """What is the same in base64 whatever stands before and after the secret: ``user:password`` in a header, too."""
    whole = base64.b64encode(content).rstrip(b"=").decode()
    forms = [whole]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + content).decode()
        begin, end = (0, 2, 3)[before], (len(content) + before) * 8 // 6
        if end - begin >= _SHORTEST_BASE64:
            forms.append(encoded[begin:end])
    yield from forms
    yield from (form.translate(str.maketrans("+/", "-_")) for form in forms)
