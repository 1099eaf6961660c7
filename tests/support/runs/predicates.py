"""Verdicts without Great Expectations, which take a second and more for each.

That they come to the same is shown in ``tests/simulation/test_histories.py`` and ``tests/unit/verify/expectations``.
"""

from __future__ import annotations

from typing import Any

from kafka_ferry.verify.expectations.evaluation import MAX_LISTED
from kafka_ferry.verify.verdict import ExpectationResult


def judge_by_predicates(suites: Any, rows: Any, terms: Any, verdict: Any) -> Any:
    """The verdict by the checks' own predicates, which Great Expectations is given as expectations."""
    results = []
    for suite in suites:
        chosen = suite.severities(terms.severities)
        for check in suite.checks:
            bad = [row for row in rows.get(suite.table, ()) if not check.holds(row)]
            sentences = [f"{row}: {check.explain(row)}" for row in bad[:MAX_LISTED]]
            if len(bad) > MAX_LISTED:
                sentences.append(f"and {len(bad) - MAX_LISTED:,} more")
            results.append(
                ExpectationResult(
                    name=check.name,
                    table=suite.table,
                    success=not bad,
                    severity=chosen[check.key],
                    unexpected=tuple(sentences),
                    advice=check.advice,
                    key=check.key,
                )
            )
    return verdict.join(results)
