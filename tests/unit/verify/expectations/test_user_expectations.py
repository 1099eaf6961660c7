"""What users expect beside Kafka Ferry's own checks, in files of theirs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.verify import Terms, Verdict, judge
from kafka_ferry.verify.expectations.judge import SUITES, judge_groups
from kafka_ferry.verify.expectations.tables import KINDS, Rows, columns
from kafka_ferry.verify.expectations.user_expectations import own_expectations
from kafka_ferry.verify.groups import GROUPS, GroupRow
from tests import PROJECT
from tests.support.runs.reports import PARTITION, RANGE, changed

GOOD_YAML = """\
# No partition may be far behind.
partitions:
  - type: expect_column_values_to_be_between
    kwargs: {column: uncommitted, max_value: 10}
    description: little is left over from attempts that broke off
    notes: Look for tasks that are killed.
    severity: warning

ranges:
  - type: expect_column_sum_to_be_between
    kwargs:
      column: copied
      min_value: 100
"""
GOOD_PYTHON = """\
import great_expectations.expectations as gxe

partitions = [
    gxe.ExpectColumnValuesToBeBetween(
        column="uncommitted",
        max_value=10,
        description="little is left over from attempts that broke off",
        notes="Look for tasks that are killed.",
        severity="warning",
    ),
]
ranges = [gxe.ExpectColumnSumToBeBetween(column="copied", min_value=100)]
"""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return flow_with(tmp_path)


def flow_with(folder: Path, **options: object) -> Flow:
    return Flow.model_validate(
        {
            "source": {"alias": "eu", "properties": {"bootstrap.servers": "localhost:1"}},
            "target": {"alias": "us", "properties": {"bootstrap.servers": "localhost:2"}},
            "verify.expectations": str(folder),
            **options,
        }
    )


def judged(flow: Flow, rows: Rows | None = None, docs: Path | None = None) -> Verdict:
    rows = rows or {"ranges": [RANGE], "partitions": [PARTITION]}
    return judge(rows, Terms(flow.name, "run 1", docs, own=own_expectations(flow)))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("eu_to_us.yaml", GOOD_YAML, (3, 10)),
        ("eu_to_us.py", GOOD_PYTHON, (4, 12)),
        ("all.yml", GOOD_YAML, (3, 10)),
        ("all.py", GOOD_PYTHON, (4, 12)),
    ],
)
def test_a_file_of_the_flow_or_of_all_flows_is_judged_after_our_own(
    flow: Flow, tmp_path: Path, name: str, text: str, lines: tuple[int, int]
) -> None:
    write(tmp_path, name, text)
    left = changed(PARTITION, uncommitted=11)
    verdict = judged(flow, {"ranges": [RANGE], "partitions": [PARTITION, left]})

    strict, mild = (check for check in verdict.expectations if check.source)
    assert mild.name == "little is left over from attempts that broke off"
    assert (mild.table, mild.severity, mild.success) == ("partitions", "warning", False)
    assert mild.advice == "Look for tasks that are killed."
    assert mild.source == f"{tmp_path / name}, line {lines[0]}"
    assert verdict.warnings == (f"orders-3 [100, 200): uncommitted is 11 (expected: {mild.name})",)
    assert (strict.table, strict.severity, strict.success) == ("ranges", "critical", False)
    assert strict.source.endswith(f"line {lines[1]}")
    named = "expect_column_sum_to_be_between(column='copied', min_value=100"
    assert strict.name.startswith(named)
    assert verdict.failures == (f"found 90 (expected: {strict.name})",)
    assert [check.success for check in verdict.expectations if not check.source] == [True] * 38


def test_json_says_the_same_as_yaml(flow: Flow, tmp_path: Path) -> None:
    kwargs = '{"column": "copied", "max_value": 89}'
    text = f'{{"ranges": [{{"type": "expect_column_sum_to_be_between", "kwargs": {kwargs}}}]}}'
    write(tmp_path, "eu_to_us.json", text)
    (own,) = (check for check in judged(flow).expectations if check.source)
    assert own.unexpected == ("found 90",)
    assert own.source.endswith("eu_to_us.json, line 1")


def test_the_option_may_name_one_file(tmp_path: Path) -> None:
    write(tmp_path, "mine.yaml", GOOD_YAML)
    flow = flow_with(tmp_path / "mine.yaml")
    assert len([check for check in judged(flow).expectations if check.source]) == 2


def test_other_files_hold_no_expectations(flow: Flow, tmp_path: Path) -> None:
    write(tmp_path, "us_to_eu.yaml", "broken: [")
    write(tmp_path, "common.py", "raise ValueError")
    assert judged(flow).success


def test_there_need_be_no_file_unless_one_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    assert judged(flow_with(Path("include/expectations"))).success
    missing = judged(flow_with(Path("include/other")))
    assert not missing.success
    assert f"{tmp_path}/include/other: verify.expectations names it" in missing.failures[0]


def test_a_condition_chooses_rows(flow: Flow, tmp_path: Path) -> None:
    write(
        tmp_path,
        "all.yaml",
        """\
ranges:
  - type: expect_column_values_to_be_between
    kwargs:
      column: copied
      min_value: 1000
      row_condition: topic == "payments"
""",
    )
    assert judged(flow).success
    payments = replace(RANGE, topic="payments")
    verdict = judged(flow, {"ranges": [RANGE, payments], "partitions": [PARTITION]})
    assert len(verdict.failures) == 1
    assert verdict.failures[0].startswith("payments-3 [100, 200): copied is 90 (expected: ")


@pytest.mark.parametrize(
    ("name", "text", "line", "says"),
    [
        ("all.yaml", "ranges:\n  - {type: [\n", 3, "not valid YAML: "),
        ("all.yaml", "- a\n", 1, "must be a mapping of tables to expectations."),
        ("all.yaml", "ranges: []\nrange: []\n", 2, "no table 'range'. Did you mean 'ranges'?"),
        ("all.yaml", "\nranges: {a: b}\n", 2, "ranges must be a list of expectations."),
        ("all.yaml", "ranges:\n  - 7\n", 2, "7 is not an expectation of Great Expectations."),
        (
            "all.yaml",
            "ranges:\n  - type: expect_colunn_sum_to_be_between\n",
            2,
            "no expectation 'expect_colunn_sum_to_be_between'. Did you mean "
            "'expect_column_sum_to_be_between'?",
        ),
        (
            "all.yaml",
            "ranges:\n  - type: expect_column_sum_to_be_between\n    kwargs: {kolumn: copied}\n",
            2,
            "column field required",
        ),
        (
            "all.yaml",
            "ranges:\n  - type: expect_column_sum_to_be_between\n    kwargs: {column: copied_}\n",
            2,
            "the table ranges has no column 'copied_'. Did you mean 'copied'?",
        ),
        (
            "all.yaml",
            "ranges:\n  - type: expect_column_sum_to_be_between\n    severity: bad\n",
            2,
            "severity 'bad' must be critical, warning or info.",
        ),
        (
            "all.yaml",
            "ranges:\n  - type: expect_column_sum_to_be_between\n    kwarg: {}\n",
            2,
            "'kwarg' is unknown. Did you mean 'kwargs'?",
        ),
        ("all.py", "x = 1\ny = (\n", 2, "SyntaxError: "),
        ("all.py", "def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError: division by zero"),
        ("all.py", "import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("all.py", "import no_such_module\n", 1, "ModuleNotFoundError: "),
        (
            "all.py",
            "\nranges = [\n    1,\n]\n",
            3,
            "1 is not an expectation of Great Expectations.",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_line_and_hides_no_other_file(
    flow: Flow, tmp_path: Path, name: str, text: str, line: int, says: str
) -> None:
    write(tmp_path, name, text)
    write(tmp_path, "eu_to_us.yaml", GOOD_YAML)
    own = own_expectations(flow)

    (problem,) = map(str, own.problems)
    assert f"{tmp_path / name}, line {line}: " in problem
    assert says in problem
    assert sum(map(len, own.found.values())) == 2


def test_what_is_wrong_with_files_fails_a_run_whose_own_checks_are_made_all_the_same(
    flow: Flow, tmp_path: Path
) -> None:
    write(tmp_path, "all.yaml", "ranges:\n  - 7\n")
    write(tmp_path, "all.py", "x = 1\ny = (\n")
    write(tmp_path, "eu_to_us.yaml", GOOD_YAML)
    lost = changed(RANGE, end=310, foreign=1, copied=200, target_records=200)
    verdict = judged(flow, {"ranges": [lost], "partitions": [PARTITION]})

    ours, in_yaml, in_python = verdict.failures
    assert "1 record of another producer" in ours
    assert f"{tmp_path}/all.yaml, line 2: " in in_yaml
    assert f"{tmp_path}/all.py, line 2: " in in_python
    assert len([check for check in verdict.expectations if check.source]) == 4


def test_an_expectation_that_cannot_be_evaluated_is_named_with_its_line(
    flow: Flow, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "all.yaml",
        """\
ranges:
  - type: expect_table_row_count_to_equal_other_table
    kwargs: {other_table_name: secrets}
    severity: info
  - type: expect_column_values_to_be_between
    kwargs: {column: where, min_value: 3}
    severity: info
""",
    )
    verdict = judged(flow)
    assert not verdict.success
    assert len(verdict.failures) == 2
    assert f"{tmp_path}/all.yaml, line 2: " in verdict.failures[0]
    assert f"{tmp_path}/all.yaml, line 5: " in verdict.failures[1]


def test_what_is_expected_of_groups_is_judged_with_them(flow: Flow, tmp_path: Path) -> None:
    write(
        tmp_path,
        "all.yaml",
        """\
groups:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: group, value_set: [billing]}
""",
    )
    docs = tmp_path / "docs"
    verdict = judged(flow, docs=docs)
    assert verdict.success
    assert not [check for check in verdict.expectations if check.source]
    row = GroupRow("audit", "orders", 3, "eu.orders", 7, 9, 9, 0, 9, 0, 0)
    terms = Terms(flow.name, "run 1", docs, own=own_expectations(flow))

    together = judge_groups([row], verdict, terms)

    assert together.failures[0].startswith("group audit, eu.orders-3: group is audit (expected: ")
    pages = {path.stem for path in (docs / "runs").glob("*/*.html")}
    assert pages == {"ranges", "warnings", "partitions", "topics", "groups", "own-groups"}


def test_the_data_docs_show_users_expectations(flow: Flow, tmp_path: Path) -> None:
    write(tmp_path, "all.yaml", GOOD_YAML)
    docs = tmp_path / "docs"
    judged(flow, docs=docs)
    (page,) = docs.glob("runs/*/own-partitions.html")
    assert "little is left over from attempts that broke off" in page.read_text()
    assert (docs / "expectations" / "own-ranges.html").is_file()


def test_the_python_file_leaves_no_trace(flow: Flow, tmp_path: Path) -> None:
    write(tmp_path, "all.py", GOOD_PYTHON)
    judged(flow)
    assert [path.name for path in tmp_path.iterdir()] == ["all.py"]


DOCS = (PROJECT / "docs" / "verification.md").read_text()
SAMPLES = PROJECT / "include" / "expectations"


@pytest.mark.parametrize("table", KINDS)
def test_the_page_of_docs_has_every_column_of_every_table(table: str) -> None:
    _, _, section = DOCS.partition(f"### `{table}`")
    section = section.partition("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(columns(table))


def test_the_page_of_docs_has_every_check_with_what_it_weighs() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (.+?) \|$", DOCS, re.M)
    checks = [
        (check.key, weight, check.name)
        for suite in (*SUITES, GROUPS)
        for check, weight in zip(suite.checks, suite.severities({}).values(), strict=True)
    ]
    assert [(key, weight, name.partition(", where")[0]) for key, weight, name in listed] == checks


@pytest.mark.parametrize("name", ["sample.yaml", "sample.py"])
def test_the_samples_are_in_the_docs_and_can_be_judged(tmp_path: Path, name: str) -> None:
    text = (SAMPLES / name).read_text()
    assert text in DOCS
    write(tmp_path, name, text)
    own = own_expectations(flow_with(tmp_path / name))
    assert not own.problems
    assert sum(map(len, own.found.values())) == text.count("description")


def test_no_flow_reads_the_samples() -> None:
    assert not own_expectations(flow_with(SAMPLES)).found
