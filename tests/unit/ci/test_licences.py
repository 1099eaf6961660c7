"""The list of dependencies' licences is that of the lock file."""

from __future__ import annotations

import sys
from email.message import Message
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Any

import pytest

from tests import PROJECT


def load() -> Any:
    spec = spec_from_file_location("licences", PROJECT / ".ci" / "licences.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


licences = load()


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="The page is of Python 3.11's packages."
)
def test_the_page_in_the_docs_is_as_make_docs_writes_it() -> None:
    assert (PROJECT / "docs" / "reference" / "licences.md").read_text() == licences.page()


@pytest.mark.parametrize(
    ("declared", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "the whole text")], "MIT"),
        (
            [("License", "BSD-3-Clause"), ("Classifier", "License :: x :: BSD License")],
            "BSD-3-Clause",
        ),
        ([("License", "Apache License 2.0")], "Apache-2.0"),
        ([("License", "UNKNOWN"), ("Classifier", "License :: x :: ISC License (ISCL)")], "ISC"),
        (
            [("Classifier", "License :: OSI Approved"), ("Classifier", "License :: MIT License")],
            "MIT",
        ),
        (
            [("Classifier", "License :: x :: BSD License"), ("Classifier", "License :: Foo 1")],
            "BSD; Foo 1",
        ),
        ([("License", "Ask the author")], "Ask the author"),
        ([("License", "A whole text. " * 9)], "not declared"),
        ([], "not declared"),
    ],
)
def test_a_licence_is_what_the_package_declares(
    declared: list[tuple[str, str]], licence: str
) -> None:
    metadata = Message()
    for key, value in declared:
        metadata[key] = value
    assert licences.licence_of(SimpleNamespace(metadata=metadata)) == licence


@pytest.mark.parametrize(
    ("licence", "permissive"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("Apache-2.0 AND MIT", True),
        ("BSD; Apache-2.0", True),
        ("MPL-2.0 AND MIT", False),
        ("MIT; GPL-2.0", False),
        ("not declared", False),
        ("Ask the author", False),
    ],
)
def test_a_licence_is_permissive_if_all_parts_of_one_choice_are(
    licence: str, permissive: bool
) -> None:
    assert licences.is_permissive(licence) is permissive


def test_only_what_the_lock_file_names_for_this_python_is_listed() -> None:
    lock = """\
six==1.17.0 \\
    --hash=sha256:aa
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:bb
tomli==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
"""
    assert licences.locked(lock) == {"six", "numpy"}


def test_a_package_that_is_missing_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match="no-such-package is not installed: run make setup"):
        licences.installed(["no-such-package"])
