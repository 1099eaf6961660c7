"""The characters of a Java regular expression, and the many ways to write one."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_OCTAL: Final = frozenset("01234567")
DIGITS: Final = frozenset("0123456789")
LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class JavaSyntaxError(ValueError):
    """An expression that Java would not compile."""


class NotTranslated(ValueError):
    """An expression that Java compiles, with something in it that cannot run here."""


class Tokens:
    """Reads an expression once, from left to right.

    Args:
        pattern: the expression.
    """

    def __init__(self, pattern: str) -> None:
        self._tokens = _unquote(pattern)
        self._at = 0

    @property
    def more(self) -> bool:
        """Whether the end is not reached."""
        return self._at < len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """The next character if it may mean something; "" at the end, and for a quoted one."""
        at = self._at + ahead
        char, quoted = self._tokens[at] if at < len(self._tokens) else ("", False)
        return "" if quoted else char

    def take(self) -> str:
        """The next character, whatever it is."""
        if self._at >= len(self._tokens):
            raise JavaSyntaxError("unexpected end")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def accept(self, text: str) -> bool:
        """Takes the text if it comes next, and says whether it did."""
        if all(self.peek(ahead) == char for ahead, char in enumerate(text)):
            self._at += len(text)
            return True
        return False

    def while_in(self, chars: frozenset[str], most: int = 10_000) -> str:
        """Takes what comes next of these characters."""
        text = ""
        while len(text) < most and self.peek() in chars:
            text += self.take()
        return text

    def character(self) -> str:
        """The character that stands after a backslash."""
        quoted = not self.peek()
        char = self.take()
        if quoted:
            raise NotTranslated("a quotation after a backslash")
        if char in _ESCAPES:
            return _ESCAPES[char]
        match char:
            case "c":
                return chr(ord(self.take()) ^ 64)
            case "0":
                return self._octal()
            case "x":
                return self._hexadecimal()
            case "u":
                return self._utf16()
        if char in LETTERS or char in DIGITS:
            raise JavaSyntaxError(f"illegal escape \\{char}")
        return char

    def _octal(self) -> str:
        digits = self.while_in(_OCTAL, 3 if self.peek() in frozenset("0123") else 2)
        if not digits:
            raise JavaSyntaxError("illegal octal escape")
        return chr(int(digits, 8))

    def _hexadecimal(self) -> str:
        if self.accept("{"):
            digits = self.while_in(_HEX)
            if not digits or not self.accept("}") or int(digits, 16) > 0x10FFFF:
                raise JavaSyntaxError("illegal hexadecimal escape")
        else:
            digits = self.while_in(_HEX, 2)
            if len(digits) < 2:
                raise JavaSyntaxError("illegal hexadecimal escape")
        return _whole(int(digits, 16))

    def _utf16(self) -> str:
        unit = self._unit()
        if 0xD800 <= unit < 0xDC00 and self.accept("\\u"):
            low = self._unit()
            if not 0xDC00 <= low < 0xE000:
                raise NotTranslated("half of a surrogate pair")
            unit = 0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00
        return _whole(unit)

    def _unit(self) -> int:
        digits = self.while_in(_HEX, 4)
        if len(digits) < 4:
            raise JavaSyntaxError("illegal Unicode escape")
        return int(digits, 16)


def _unquote(pattern: str) -> list[tuple[str, bool]]:
    """The characters, each with whether it is between ``\\Q`` and ``\\E``."""
    characters: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("\\Q", at):
            end = pattern.find("\\E", at + 2)
            end = len(pattern) if end < 0 else end
            characters += ((char, True) for char in pattern[at + 2 : end])
            at = end + 2
        else:
            length = 2 if pattern[at] == "\\" else 1
            characters += ((char, False) for char in pattern[at : at + length])
            at += length
    return characters


def _whole(code: int) -> str:
    if 0xD800 <= code < 0xE000:
        raise NotTranslated("half of a surrogate pair")
    return chr(code)
