"""Translates Java's regular expressions for ``regex``: with the same results, or refused by name.

Source: ``java.util.regex.Pattern`` of Java 17. The result has no flag and no class whose meaning depends
on one: every class is written out, and a letter under ``(?i)`` is a set of two. Rare constructs that
differ in details (comments, lines, Unicode's case, graphemes) are refused, never approximated.
tests/integration/test_java_patterns.py compares with a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kafka_ferry.config.types.java_classes import NO_LINE_END, OF_UNICODE, PREDEFINED, of_property
from kafka_ferry.config.types.java_tokens import (
    DIGITS,
    LETTERS,
    JavaSyntaxError,
    NotTranslated,
    Tokens,
)

__all__ = ["JavaSyntaxError", "NotTranslated", "translate_regex"]

_DEEPEST: Final = 50
_MOST_TIMES: Final = 2**31 - 1
_REPEATED: Final = 10_000
# ``regex`` unrolls what is repeated within each other, and takes some 60 bytes for each of it.
_UNROLLED: Final = 100_000
_LINE_BREAK: Final = r"(?:\r\n|[\n\x0B\f\r\x85\u2028\u2029])"
_END: Final = r"(?:\Z|(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])\Z))"
_WORD: Final = r"(?:[\p{L}\p{Nd}_]|(?<=[\p{L}\p{Nd}]\p{Mn}*)\p{Mn})"
_AFTER_WORD: Final = r"(?<=[\p{L}\p{Nd}_]|[\p{L}\p{Nd}]\p{Mn}+)"
_NOT_AFTER_WORD: Final = _AFTER_WORD.replace("(?<=", "(?<!", 1)
_ANCHORS: Final = {
    "^": r"\A",
    "$": _END,
    "A": r"\A",
    "Z": _END,
    "z": r"\Z",
    "b": f"(?:{_AFTER_WORD}(?!{_WORD})|{_NOT_AFTER_WORD}(?={_WORD}))",
    "B": f"(?:{_AFTER_WORD}(?={_WORD})|{_NOT_AFTER_WORD}(?!{_WORD}))",
}
_REFUSED_FLAGS: Final = {"d": "(?d)", "m": "(?m)", "x": "(?x)"}


@dataclass(frozen=True)
class _Flags:
    """The flags that hold at a place."""

    i: bool = False
    s: bool = False
    u: bool = False
    U: bool = False


def translate_regex(pattern: str) -> str:
    """The expression for ``regex.compile(..., regex.VERSION1)``; groups keep their numbers.

    Raises:
        JavaSyntaxError: Java would not compile it.
        NotTranslated: it has something that is not translated.
    """
    return _Translator(pattern).whole()


class _Translator(Tokens):
    """Reads an expression once, from left to right, as ``Pattern`` does."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._flags = _Flags()
        self._groups = 0
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._depth = 0
        self._behind = False
        self._size = self._unrolled = 0

    def whole(self) -> str:
        translated = self._alternatives()
        if self.more:
            raise JavaSyntaxError("unmatched closing ')'")
        return translated

    # --- structure -------------------------------------------------------------------------------

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self.accept("|"):
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        parts: list[str] = []
        while self.more and self.peek() not in ("|", ")"):
            char = self.peek()
            if char and char in "*+?":
                raise JavaSyntaxError(f"dangling {char!r}")
            if char == "{":
                self._repetition()  # of nothing, as Java reads it
                continue
            before = self._size
            atom, repeatable = self._atom()
            if not atom:
                continue  # flags, which Java does not let repeat
            if self.peek() in ("*", "+", "?", "{"):
                times, suffix = self._repetition()
                if not repeatable:
                    raise NotTranslated("a repeated anchor or look-around")
                self._unroll(before, times)
                atom = _repeat(atom, times, suffix)
            parts.append(atom)
        return "".join(parts)

    def _repetition(self) -> tuple[str, str]:
        """How often, in the form of ``regex``, and ``?``, ``+`` or nothing after it."""
        times = self.take()
        if times == "{":
            times = self._counts()
        if self._behind and (times in "*+" or times.endswith(",}")):
            raise NotTranslated("a look-behind of any length")
        suffix = self.take() if self.peek() in ("?", "+") else ""
        return times, suffix

    def _unroll(self, before: int, times: str) -> None:
        """Count what has come since ``before`` as often as it is repeated.

        Raises:
            NotTranslated: the expression would take too much memory.
        """
        counts = [int(count) for count in times.strip("{}").split(",") if count.isdecimal()]
        added = (self._size - before) * (max(counts, default=1) - 1)
        self._unrolled += max(added, 0)
        self._size += max(added, 0)
        if self._unrolled > _UNROLLED:
            raise NotTranslated(f"repetitions of more than {_UNROLLED:,} characters in all")

    def _counts(self) -> str:
        low = self.while_in(DIGITS)
        if not low:
            raise JavaSyntaxError("illegal repetition")
        high = low
        if self.accept(","):
            high = self.while_in(DIGITS)
        if not self.accept("}"):
            raise JavaSyntaxError("illegal repetition, with an unclosed {")
        numbers = [int(number) for number in (low, high) if number and len(number) < 20]
        if numbers != sorted(numbers) or max(numbers, default=_MOST_TIMES + 1) > _MOST_TIMES:
            raise JavaSyntaxError("illegal repetition range")
        if max(numbers) > _REPEATED:
            raise NotTranslated(f"more than {_REPEATED:,} repetitions")
        return f"{{{int(low)},{int(high) if high else ''}}}"

    def _atom(self) -> tuple[str, bool]:
        """What stands for the next thing, and whether it may be repeated."""
        meant = self.peek()
        char = self.take()
        self._size += 1
        if meant == "(":
            return self._group()
        if meant == "\\":
            return self._escape()
        if meant in ("^", "$"):
            return _ANCHORS[char], False
        if meant == "[":
            return self._class(), True
        if meant == ".":
            return ("(?s:.)" if self._flags.s else NO_LINE_END), True
        return self._literal(char), True

    def _literal(self, char: str) -> str:
        if self._flags.i and char in LETTERS:
            return f"[{char.lower()}{char.upper()}]"
        return _write(char)

    # --- groups ----------------------------------------------------------------------------------

    def _group(self) -> tuple[str, bool]:
        if not self.accept("?"):
            return self._capture(""), True
        if self.accept(":"):
            return self._within("(?:"), True
        if self.accept(">"):
            self._refuse_behind("an atomic group")
            return self._within("(?>"), True
        for opening in ("=", "!", "<=", "<!"):
            if self.accept(opening):
                return self._look_around(opening), False
        if self.accept("<"):
            return self._capture(self._name(">")), True
        return self._flag_group()

    def _refuse_behind(self, what: str) -> None:
        if self._behind:
            raise NotTranslated(f"{what} in a look-behind")

    def _capture(self, name: str) -> str:
        self._refuse_behind("a capturing group")
        if name in self._names:
            raise JavaSyntaxError(f"the group {name!r} is defined twice")
        self._groups += 1
        number = self._groups
        if name:
            self._names[name] = number
        group = self._within(f"(?P<g{number}>")
        self._closed.add(number)
        return group

    def _look_around(self, opening: str) -> str:
        self._refuse_behind("a look-around")
        self._behind = opening.startswith("<")
        group = self._within(f"(?{opening}")
        self._behind = False
        return group

    def _within(self, opening: str) -> str:
        """The rest of a group; flags that are set in it end with it."""
        flags, self._depth = self._flags, self._depth + 1
        if self._depth > _DEEPEST:
            raise NotTranslated(f"more than {_DEEPEST} groups within each other")
        inner = self._alternatives()
        if not self.accept(")"):
            raise JavaSyntaxError("unclosed group")
        self._flags, self._depth = flags, self._depth - 1
        return f"{opening}{inner})"

    def _flag_group(self) -> tuple[str, bool]:
        flags, on = self._flags, True
        while (char := self.peek()) not in (")", ":"):
            if char == "-" and on:
                on = False
            elif char in ("i", "s", "u", "U"):
                flags = replace(flags, **{char: on})
            elif char not in _REFUSED_FLAGS:
                raise JavaSyntaxError("unknown inline modifier or group")
            elif on:
                raise NotTranslated(f"the flag {_REFUSED_FLAGS[char]}")
            self.take()
        if flags.i and (flags.u or flags.U):
            raise NotTranslated("the flag (?i) together with (?u) or (?U)")
        if self.take() == ")":
            self._flags = flags
            return "", False
        before, self._flags = self._flags, flags
        group = self._within("(?:")
        self._flags = before
        return group, True

    def _name(self, end: str) -> str:
        name = self.while_in(LETTERS | DIGITS)
        if not name or name[0] in DIGITS or not self.accept(end):
            raise JavaSyntaxError("no name of a group")
        return name

    # --- what begins with a backslash -------------------------------------------------------------

    def _escape(self) -> tuple[str, bool]:
        char = self.peek()
        if char in DIGITS and char != "0":
            return self._back_reference(self._number()), True
        if char == "k":
            self.take()
            if not self.accept("<"):
                raise JavaSyntaxError("\\k is not followed by '<'")
            name = self._name(">")
            if name not in self._names:
                raise JavaSyntaxError(f"there is no group {name!r} before it")
            return self._back_reference(self._names[name]), True
        if char == "R":
            self.take()
            return _LINE_BREAK, True
        if char and char in "GNX":
            raise NotTranslated(f"\\{char}")
        if char and char in "AZzbB":
            self.take()
            if char == "b" and self.peek() == "{":
                raise NotTranslated("\\b{g}")
            if char in "bB" and self._flags.U:
                raise NotTranslated(f"\\{char} with (?U)")
            return _ANCHORS[char], False
        if (items := self._predefined_class()) is not None:
            return f"[{items}]", True
        return self._literal(self.character()), True

    def _number(self) -> int:
        """Of the digits as many as there are groups for."""
        number = int(self.take())
        while self.peek() in DIGITS and number * 10 + int(self.peek()) <= self._groups:
            number = number * 10 + int(self.take())
        return number

    def _back_reference(self, number: int) -> str:
        self._refuse_behind("a back-reference")
        if self._flags.i:
            raise NotTranslated("a back-reference with (?i)")
        if number not in self._closed:
            raise NotTranslated("a reference to a group that is not closed before it")
        return f"(?P=g{number})"

    def _predefined_class(self) -> str | None:
        """The items of a class that begins with a backslash, None where a character does."""
        char = self.peek()
        table = OF_UNICODE if self._flags.U else PREDEFINED
        if char.lower() in table and char.isascii() and char:
            self.take()
            return table[char] if char in table else f"[^{table[char.lower()]}]"
        if char in ("p", "P"):
            self.take()
            items = self._property()
            return items if char == "p" else f"[^{items}]"
        return None

    def _property(self) -> str:
        name = self.take()
        if name == "{":
            name = ""
            while self.peek() != "}":
                name += self.take()
            self.take()
        items = of_property(name, any_case=self._flags.i, unicode=self._flags.U)
        if items is None:
            raise NotTranslated(f"\\p{{{name}}}")
        return items

    # --- character classes ------------------------------------------------------------------------

    def _class(self) -> str:
        """The rest of a class; what is negated is all of it, intersections too."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotTranslated(f"more than {_DEEPEST} classes within each other")
        opening = "[^" if self.accept("^") else "["
        operands: list[str] = []
        items: list[str] = []
        nested = 0
        while not (self.peek() == "]" and (items or operands)):
            if not self.more:
                raise JavaSyntaxError("unclosed character class")
            if self.accept("&&"):
                if self.peek() == "&":
                    raise NotTranslated("an intersection with nothing")
                operands.append(_operand(items, 0 if not operands else nested))
                items, nested = [], 0
            elif self.accept("["):
                items.append(self._class())
                nested += 1
            else:
                items.append(self._item())
        self.take()
        self._depth -= 1
        if not operands:
            return f"{opening}{''.join(items)}]"
        operands.append(_operand(items, nested))
        return f"{opening}{'&&'.join(operands)}]"

    def _item(self) -> str:
        """A character, a range, or a class by name."""
        self._size += 1
        if self.peek() == "\\":
            self.take()
            if (items := self._predefined_class()) is not None:
                return items
            first = self.character()
        else:
            first = self.take()
        if self.peek() != "-" or self.peek(1) in ("[", "]"):
            return _both_cases(first, first) if self._flags.i else _write(first)
        self.take()
        last = self.character() if self.accept("\\") else self.take()
        if last < first:
            raise JavaSyntaxError("illegal character range")
        return _both_cases(first, last) if self._flags.i else _range(first, last)


def _operand(items: list[str], nested: int) -> str:
    """A side of an intersection; Java forgets a part of one that mixes classes and characters."""
    if not items:
        raise NotTranslated("an intersection with nothing")
    if nested and nested != len(items):
        raise NotTranslated("an intersection of classes and characters side by side")
    return f"[{''.join(items)}]"


def _repeat(atom: str, times: str, suffix: str) -> str:
    whole = f"{atom}{times}"
    return f"(?>{whole})" if suffix == "+" else f"{whole}{suffix}"


def _write(char: str) -> str:
    if char in LETTERS or char in DIGITS:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _range(first: str, last: str) -> str:
    return _write(first) if first == last else f"{_write(first)}-{_write(last)}"


def _both_cases(first: str, last: str) -> str:
    swapped = [char for char in sorted(LETTERS) if first <= char.swapcase() <= last]
    return _range(first, last) + "".join(swapped)
