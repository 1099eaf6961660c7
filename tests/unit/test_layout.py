"""Where modules and their tests are: few modules in each folder, and for each the test that holds it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import benchmarks

import kafka_ferry
import kafka_ferry_airflow
import kafka_sandbox
from tests import PROJECT

from .held_elsewhere import AIRFLOW, HELD_BY, OF_SEVERAL, OUTSIDE

MOST = 15
TESTS = PROJECT / "tests"
INCLUDE = PROJECT / "include"


def folders(*packages: ModuleType) -> list[Path]:
    """The folder of each package and all below it."""
    return sorted(
        file.parent
        for package in packages
        for file in Path(str(package.__file__)).parent.rglob("__init__.py")
    )


LIBRARY = folders(kafka_ferry, kafka_ferry_airflow)
FOLDERS = LIBRARY + folders(kafka_sandbox, benchmarks)


def unit_test(module: str) -> str:
    """The place of a module's own test below ``tests/unit``: its path in the library, ``test_`` before its name."""
    _, *folders, name = module.replace(AIRFLOW, f"{AIRFLOW}/airflow").split("/")
    return "/".join((*folders, f"test_{name}.py"))


def held_elsewhere() -> list[str]:
    parts = [part.partition(": ") for held in HELD_BY.values() for part in held.split("; ")]
    return [
        "/".join(filter(None, (within(folder), name)))
        for folder, _, names in parts
        for name in names.split()
    ]


def within(folder: str) -> str:
    return folder if folder.startswith(AIRFLOW) else f"kafka_ferry/{folder}".rstrip("/")


ALL = {
    f"{folder.relative_to(INCLUDE)}/{file.stem}"
    for folder in LIBRARY
    for file in folder.glob("*.py")
    if not file.stem.startswith("__")
}
TESTED = {file.relative_to(TESTS / "unit").as_posix() for file in TESTS.glob("unit/**/test_*.py")}


def modules(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.py") if file.name != "__init__.py")


def test_no_folder_has_more_than_fifteen_modules() -> None:
    of_tests = {file.parent for file in TESTS.rglob("*.py")}
    wide = {str(it.relative_to(PROJECT)): len(modules(it)) for it in [*FOLDERS, *of_tests]}
    assert {folder: count for folder, count in wide.items() if count > MOST} == {}


def test_the_page_on_the_architecture_names_every_folder() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text()
    named = {
        name.rpartition("/")[2]
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall("`([a-z0-9_/]+)`", line.split("|")[1])
    }
    inside = Path(str(kafka_ferry.__file__)).parent
    assert {folder.name for folder in folders(kafka_ferry) if folder != inside} - named == set()


def test_a_folder_says_in_a_line_what_its_subject_is() -> None:
    for folder in FOLDERS:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert text, folder
        assert "\n" not in text, folder


def test_no_modules_import_each_other_not_even_for_types() -> None:
    imports = TopologicalSorter(
        {
            module.replace("/", "."): [
                node.module
                for node in ast.walk(ast.parse((INCLUDE / f"{module}.py").read_text()))
                if isinstance(node, ast.ImportFrom) and node.module
            ]
            for module in ALL
        }
    )
    imports.prepare()  # fails where they do, and names them


def test_no_two_public_classes_have_one_name() -> None:
    found = Counter(
        node.name
        for folder in FOLDERS
        for file in folder.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_each_module_has_a_test_of_its_own_or_is_held_by_the_one_that_the_table_names() -> None:
    """A new module gets ``tests/unit/<its path>/test_<its name>.py``; a border a line in ``held_elsewhere``."""
    without = {module for module in ALL if unit_test(module) not in TESTED}
    assert sorted(held_elsewhere()) == sorted(without)


def test_each_test_that_holds_a_module_is_there() -> None:
    assert [test for test in HELD_BY if not (TESTS / test).is_file()] == []


def test_each_unit_test_is_called_after_its_module() -> None:
    own = {unit_test(module) for module in ALL}
    of_the_library = {test for test in TESTED if test.split("/")[0] not in OUTSIDE}
    assert of_the_library - own == OF_SEVERAL
