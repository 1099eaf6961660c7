"""Where the page, reports and Data Docs are."""

from __future__ import annotations

from kafka_ferry_airflow.page.urls import docs_url, page_url, report_url

RUN = "scheduled__2026-11-21T10:00:00+00:00"


def test_the_page_shows_all_flows_or_one_or_a_part_of_it() -> None:
    assert page_url() == "/plugin/mirrors"
    assert page_url("a_to_b") == "/plugin/mirrors?flow=a_to_b"


def test_the_plus_of_a_run_id_is_no_space() -> None:
    escaped = "scheduled__2026-11-21T10%3A00%3A00%2B00%3A00"
    assert page_url("a_to_b", run=RUN) == f"/plugin/mirrors?flow=a_to_b&run={escaped}"
    assert report_url("a_to_b", RUN) == f"/kafka-ferry/api/flows/a_to_b/runs/{escaped}/report"


def test_data_docs_end_in_a_slash_so_that_their_own_links_are_right() -> None:
    assert docs_url("a_to_b") == "/kafka-ferry/api/flows/a_to_b/data_docs/"
