"""Translated patterns against ``java.util.regex.Pattern`` in a JVM: the same answer, or refused by name."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import regex

from kafka_ferry.config.types.java_regex import JavaSyntaxError, NotTranslated, translate_regex
from tests.support.java.patterns import ANSWERS, REFUSED
from tests.support.java.programs import run_java

Case = tuple[str, str]
# What patterns are put together from, and what may tell one reading of them from another.
_WRITTEN = r"""
a b c A z 1 _ - . é ß k | & [ ] ^ $ ( ) { } * + ? , 2 \d \w \s \D \W \S \h \H \v \V \b \B \A \z \Z \R
\Q \E \p{Alpha} \p{Lower} \P{Upper} \p{L} \pN \p{IsDigit} \p{javaLowerCase} \x41 \x{66} \0146 \u0062
\. \- \] \1 (?: (?i) (?-i) (?i: (?s) (?U) (?= (?! (?<= (?<! (?> (?<n> \k<n> && [a-c] [^a] [a-z&&[^b]]
a-z {2} {1,2} {0,} *+ +? ?? [:alpha:] a|b (a|b)* (a?)* -- ~~ || # @ ! < > \N \X \G \e
"""
_PARTS = _WRITTEN.split()
_CLASSES = """
Lower Upper ASCII Alpha Digit Alnum Punct Graph Print Blank Cntrl XDigit Space
L Lu Ll Lt M Mn N Nd Nl No P Pc Pd Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf LC LD L1
javaLowerCase javaUpperCase javaAlphabetic javaLetter javaLetterOrDigit javaSpaceChar javaISOControl
IsLowercase IsUppercase IsAlphabetic IsDigit IsPunctuation IsWhite_Space IsLu gc=Ll IsLatin IsGreek
"""
# Unicode has put these into other classes since Java 17.
_MOVED = (0x295, *range(0x363, 0x370), 0x378, 0x379)
_TEXTS = [
    *"abcAz1_-.éÉkK|&:f{2^[ \t\n\r",
    "aa",
    "ab",
    "\u212a",
    "\u0301",
    "\u0663",
    "\u2028",
    "\xa0",
]


def java(folder: Path, cases: Sequence[Case]) -> list[str]:
    """What Java says of each case: ``error``, ``false``, or ``true`` and the groups."""
    file = folder / "cases"
    lines = (" ".join(base64.b64encode(it.encode()).decode() for it in case) for case in cases)
    file.write_text("".join(f"{line}\n" for line in lines))
    return run_java("PatternAnswers", file).splitlines()


def ours(pattern: str, text: str) -> str:
    try:
        found = regex.compile(translate_regex(pattern), regex.VERSION1).fullmatch(text, timeout=10)
    except JavaSyntaxError:
        return "error"
    except NotTranslated:
        return "refused"
    if found is None:
        return "false"
    groups = ("-" if it is None else f"={_encoded(it)}" for it in found.groups())
    return " ".join(["true", *groups])


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_table_has_javas_answers(tmp_path: Path) -> None:
    names = {True: "true", False: "false", None: "error"}
    compiled = [(pattern, "") for pattern in REFUSED]
    answers = java(tmp_path, [*((pattern, text) for pattern, text, _ in ANSWERS), *compiled])
    told = [(pattern, text, names[matches]) for pattern, text, matches in ANSWERS]
    answered = answers[: len(told)]
    assert [(*case[:2], it.split()[0]) for case, it in zip(told, answered, strict=True)] == told
    assert len(answers) == len(told) + len(compiled)
    assert "error" not in answers[len(told) :]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_put_together_answers_as_in_java(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    patterns = ["".join(chance.choices(_PARTS, k=chance.randint(1, 7))) for _ in range(20_000)]
    valid = [pattern for pattern in patterns if ours(pattern, "") in ("true", "false", "true =")]
    wrong = [pattern for pattern in patterns if ours(pattern, "") == "error"]
    assert len(valid) > 2_000 and len(wrong) > 2_000
    cases = [
        (pattern, "".join(chance.choices(_TEXTS, k=chance.randint(0, 4))))
        for pattern in (*valid[:2_000], *wrong[:1_000])
        for _ in range(5)
    ]
    answers = java(tmp_path, cases)
    differ = [
        (case, it, ours(*case))
        for case, it in zip(cases, answers, strict=True)
        if ours(*case) not in (it, "refused")
    ]
    assert differ == []


@pytest.mark.short("")
@pytest.mark.parametrize("flags", ["", "(?i)", "(?U)"])
def test_each_class_holds_the_same_characters_of_latin_greek_and_cyrillic(
    tmp_path: Path, flags: str
) -> None:
    classes = [rf"\p{{{name}}}" for name in _CLASSES.split()]
    classes += [rf"\{letter}" for letter in "dwshvDWSHV"]
    chars = [chr(at) for at in (*range(0x530), *range(0x2000, 0x2070)) if at not in _MOVED]
    cases: list[Case] = []
    for kind in (f"{flags}{it}" for it in classes):
        if ours(kind, "") != "refused":
            yes = "".join(char for char in chars if ours(kind, char) == "true")
            no = "".join(char for char in chars if ours(kind, char) != "true")
            cases += [(f"{kind}*", yes), (f"(?:(?!{kind})(?s:.))*", no)]
    assert len(cases) > 100
    answers = java(tmp_path, cases)
    assert [case for case, it in zip(cases, answers, strict=True) if it != "true"] == []
