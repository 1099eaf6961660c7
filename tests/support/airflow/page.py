"""Requests to the page Mirrors of a real Airflow."""

from __future__ import annotations

from typing import Any

import httpx

from kafka_sandbox.airflow import Airflow


def client(airflow: Airflow, user: str | None) -> httpx.Client:
    """A user's requests; without a name, those of a client that has not logged in."""
    headers = {}
    if user:
        login = {"username": user, "password": airflow.password_of(user)}
        answer = httpx.post(f"{airflow.url}/auth/token", json=login, timeout=120)
        headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return httpx.Client(base_url=airflow.url, headers=headers, timeout=120)


def got(who: httpx.Client, path: str, **query: Any) -> Any:
    answer = who.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()
