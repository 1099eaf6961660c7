"""Where modules are: few enough in each folder that a stranger sees what the folder is about."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import kafka_ferry
import kafka_ferry_airflow

MOST = 15
FOLDERS = sorted(
    file.parent
    for package in (kafka_ferry, kafka_ferry_airflow)
    for file in Path(package.__file__).parent.rglob("__init__.py")
)
INCLUDE = Path(kafka_ferry.__file__).parents[1]


def modules(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.py") if file.name != "__init__.py")


def test_no_folder_has_more_than_fifteen_modules() -> None:
    wide = {str(it.relative_to(INCLUDE)): len(modules(it)) for it in FOLDERS}
    assert {folder: count for folder, count in wide.items() if count > MOST} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda it: str(it.relative_to(INCLUDE)))
def test_a_folder_says_in_a_line_what_its_subject_is(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert text
    assert "\n" not in text


def test_no_two_public_classes_have_one_name() -> None:
    found = Counter(
        node.name
        for folder in FOLDERS
        for file in folder.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []
