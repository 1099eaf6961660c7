"""``acls.principals``: the target's names of the source's principals.

Rules are written, split and applied as Kafka's ``ssl.principal.mapping.rules``
(``org.apache.kafka.common.security.ssl.SslPrincipalMapper``), here for the whole text of a
principal, such as ``User:anna``. Two things differ: changes of case leave out the type before the colon,
which Kafka's authorizer reads literally, and ``User:*``, which is not a name, always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Final

import regex
from pydantic import AfterValidator, BeforeValidator

from kafka_ferry.config.types.name_filter import NamePatterns, PatternError, compile_patterns
from kafka_ferry.config.types.values import AlsoText

# A slash within pattern or replacement is escaped with a backslash; commas need none.
_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = rf"DEFAULT|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?)"
_PARSER: Final = regex.compile(_RULE)
_SPLITTER: Final = regex.compile(rf"\s*(?P<rule>(?:{_RULE}).*?|.*?)\s*(?:,\s*|$)")
# A backslash takes the meaning from what follows; a group's number has as many digits as there
# are groups for (``java.util.regex.Matcher.appendReplacement``).
_PIECE: Final = regex.compile(r"\\(?P<plain>.)|\$(?P<number>\d+)|(?P<wrong>[\\$])", regex.DOTALL)

_Case = Callable[[str], str]
_CASES: Final[dict[str, _Case]] = {"": str, "L": str.lower, "U": str.upper}
_USER: Final = "User:"
_FORM: Final = "must be DEFAULT or of the form RULE:pattern/replacement/ with an L or U after"


@dataclass(frozen=True)
class _Rule:
    """One rule: a pattern of whole principals, and what stands in the place of what it finds."""

    pattern: NamePatterns
    pieces: Sequence[str | int]
    case: _Case

    def apply(self, principal: str) -> str | None:
        if self.pattern.fullmatch(principal) is None:
            return None
        # Kafka replaces each occurrence, as Java's replaceAll does.
        kind, colon, name = self.pattern.sub(self._replace, principal).partition(":")
        return f"{kind}{colon}{self.case(name)}"

    def _replace(self, match: Any) -> str:
        return "".join(
            piece if isinstance(piece, str) else match[piece] or "" for piece in self.pieces
        )


@dataclass(frozen=True)
class PrincipalRules:
    """Maps principals to their names on the target.

    Args:
        texts: the rules; the first that matches counts. None at all leaves every name as it is.

    Raises:
        ValueError: one of them is not a rule.
    """

    texts: tuple[str, ...] = ()
    _rules: tuple[_Rule | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rules", tuple(map(_parse, self.texts)))

    def name_of(self, principal: str) -> str | None:
        """The principal's name on the target; None where no rule matches it."""
        if not self._rules or principal.partition(":")[2] == "*":
            return principal
        for rule in self._rules:
            name = rule.apply(principal) if rule else principal
            if name is not None:
                return name
        return None

    def user_of(self, user: str) -> str | None:
        """The user's name on the target; None where no rule matches it, or makes a principal of another type."""
        principal = self.name_of(f"{_USER}{user}") or ""
        return principal.removeprefix(_USER) if principal.startswith(_USER) else None


@lru_cache(maxsize=64)
def principal_rules(texts: tuple[str, ...]) -> PrincipalRules:
    """The rules of a flow, parsed once."""
    return PrincipalRules(texts)


def split_rules(text: str) -> tuple[str, ...]:
    """The rules in a text; a comma inside of a rule's slashes separates nothing."""
    rules = (match["rule"] for match in _SPLITTER.finditer(text.strip()))
    return tuple(rule for rule in rules if rule)


def _parse(text: str) -> _Rule | None:
    """The rule that ``text`` writes, None for ``DEFAULT``."""
    match = _PARSER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rule: it {_FORM}")
    if match["pattern"] is None:
        return None
    try:
        pattern = compile_patterns([match["pattern"]])
    except PatternError as error:
        raise ValueError(str(error)) from None
    pieces = tuple(_pieces(match["replacement"], pattern.groups, text))
    return _Rule(pattern, pieces, _CASES[match["case"]])


def _pieces(replacement: str, groups: int, rule: str) -> Iterable[str | int]:
    """A replacement as texts and numbers of groups."""
    at = 0
    for piece in _PIECE.finditer(replacement):
        yield replacement[at : piece.start()]
        at = piece.end()
        if piece["wrong"]:
            raise ValueError(
                f"{rule!r}: in the replacement, write \\\\ for a backslash, \\$ for a dollar sign "
                "and $1 for what the first group matched"
            )
        yield from [piece["plain"]] if piece["plain"] else _group(piece["number"], groups, rule)
    yield replacement[at:]


def _group(number: str, groups: int, rule: str) -> Iterable[str | int]:
    """What ``$number`` stands for; digits that no group has are text."""
    for length in range(len(number), 0, -1):
        if int(number[:length]) <= groups:
            return [int(number[:length]), number[length:]]
    if not groups:
        raise ValueError(f"{rule!r}: the pattern has no group ${number}")
    # Kafka treats a reference to a missing group as text.
    return [f"${number}"]


def _as_rules(value: Any) -> Any:
    return split_rules(value) if isinstance(value, str) else value


def _check(texts: tuple[str, ...]) -> tuple[str, ...]:
    principal_rules(texts)
    return texts


PrincipalTexts = Annotated[tuple[str, ...], BeforeValidator(_as_rules), AfterValidator(_check)]
"""An option that holds rules for principals: a list, or text with commas between the rules."""


def _as_principals(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(";") if part.strip())


def _are_principals(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        kind, _, rest = name.partition(":")
        if not kind or rest in ("", "*"):
            raise ValueError(f"{name!r} is not a principal, such as User:ferry")
    return names


Principals = Annotated[
    tuple[str, ...], BeforeValidator(_as_principals), AfterValidator(_are_principals), AlsoText()
]
"""An option that holds principals: a list, or text with semicolons between them, as ``super.users``."""
