"""The characters of Java's named character classes, as items of a set of ``regex``.

Source: ``java.util.regex.CharPredicates`` of Java 17. Without its flag ``(?U)`` Java means ASCII by ``\\w``,
``\\d``, ``\\s`` and the POSIX classes, where Python means Unicode.
"""

from __future__ import annotations

from typing import Final

_LINE_ENDS: Final = r"\n\x0B\f\r\x85\u2028\u2029"
_CASED: Final = r"\p{Lu}\p{Ll}\p{Lt}"
_CASED_OTHER_TOO: Final = r"\p{Lowercase}\p{Uppercase}\p{Lt}"

PREDEFINED: Final = {
    "d": "0-9",
    "w": "a-zA-Z_0-9",
    "s": r"\x20\t\n\x0B\f\r",
    "h": r"\x20\t\xA0\u1680\u180E\u2000-\u200A\u202F\u205F\u3000",
    "v": _LINE_ENDS,
}
"""What a backslash and a letter stand for."""

OF_UNICODE: Final = {
    **PREDEFINED,
    "d": r"\p{Nd}",
    "w": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}",
    "s": r"\p{White_Space}",
}
"""The same with ``(?U)``."""

NO_LINE_END: Final = r"[^\n\r\x85\u2028\u2029]"
"""What a dot stands for."""

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E",
    "Graph": r"\x21-\x7E",
    "Print": r"\x20-\x7E",
    "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r"\x20\t\n\x0B\f\r",
}
_POSIX_OF_UNICODE: Final = {
    "Lower": r"\p{Lowercase}",
    "Upper": r"\p{Uppercase}",
    "Alpha": r"\p{Alphabetic}",
    "Digit": r"\p{Nd}",
    "Alnum": r"\p{Alphabetic}\p{Nd}",
    "Punct": r"\p{P}",
    "Cntrl": r"\p{Cc}",
    "Space": r"\p{White_Space}",
}
_JAVA: Final = {
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaTitleCase": r"\p{Lt}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaDigit": r"\p{Nd}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}",
    "javaSpaceChar": r"\p{Z}",
    "javaISOControl": r"\x00-\x1F\x7F-\x9F",
}
_BINARY: Final = {
    "ALPHABETIC": r"\p{Alphabetic}",
    "LETTER": r"\p{L}",
    "LOWERCASE": r"\p{Lowercase}",
    "UPPERCASE": r"\p{Uppercase}",
    "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{White_Space}",
    "WHITESPACE": r"\p{White_Space}",
    "CONTROL": r"\p{Cc}",
    "PUNCTUATION": r"\p{P}",
    "DIGIT": r"\p{Nd}",
}
# Not those for unassigned characters, which shrink with each release of Unicode.
_CATEGORIES: Final = {
    **{
        name: rf"\p{{{name}}}"
        for name in (
            *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
            *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So"),
            *("Z", "Zs", "Zl", "Zp", "Cc", "Cf"),
        )
    },
    "LC": _CASED,
    "LD": r"\p{L}\p{Nd}",
    "L1": r"\x00-\xFF",
}
_SCRIPTS: Final = frozenset(
    {"ARABIC", "CYRILLIC", "GREEK", "HEBREW", "HIRAGANA", "KATAKANA", "LATIN", "THAI"}
)
_LETTERS_OF_CASE: Final = {
    **dict.fromkeys(("Lower", "Upper"), "a-zA-Z"),
    **dict.fromkeys(("Lu", "Ll", "Lt"), _CASED),
    **dict.fromkeys(("javaLowerCase", "javaUpperCase", "javaTitleCase"), _CASED_OTHER_TOO),
    **dict.fromkeys(("LOWERCASE", "UPPERCASE", "TITLECASE"), _CASED_OTHER_TOO),
}


def of_property(name: str, *, any_case: bool, unicode: bool) -> str | None:
    """The items that ``\\p{name}`` stands for; None where Java has no such name, or only Java has it.

    Args:
        name: as it stands between the braces.
        any_case: whether ``(?i)`` holds.
        unicode: whether ``(?U)`` holds.
    """
    tables = [_POSIX | _POSIX_OF_UNICODE if unicode else _POSIX, _CATEGORIES, _JAVA]
    if unicode and name in _POSIX.keys() - _POSIX_OF_UNICODE.keys() - {"ASCII"}:
        return None
    for prefix in ("gc=", "general_category=", "Is"):
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            if prefix == "Is":
                if name.upper() in _BINARY:
                    name = name.upper()
                elif name.upper() in _SCRIPTS:
                    return rf"\p{{Script={name}}}"
                tables = [_BINARY, _CATEGORIES]
            else:
                tables = [_CATEGORIES]
            break
    if any_case and name in _LETTERS_OF_CASE and any(name in table for table in tables):
        of_unicode = unicode and name in _POSIX
        return _CASED_OTHER_TOO if of_unicode else _LETTERS_OF_CASE[name]
    return next((table[name] for table in tables if name in table), None)
