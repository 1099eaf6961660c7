"""The application that is made with the first request."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from kafka_ferry_airflow.page.plugin import Application, LazyApplication, Message, Receive, Send


def answering(calls: list[str]) -> Application:
    async def application(scope: Message, receive: Receive, send: Send) -> None:
        calls.append(scope["path"])

    return application


async def nothing(*_: object) -> Message:
    return {}


async def ignore(_: Message) -> None:
    return None


def test_nothing_is_made_before_the_first_request_and_then_once_for_all() -> None:
    made: list[int] = []
    calls: list[str] = []

    def make() -> Application:
        made.append(1)
        time.sleep(0.05)
        return answering(calls)

    application = LazyApplication(make)
    assert made == []

    async def ask_often() -> None:
        await asyncio.gather(
            *(application({"path": f"/{number}"}, nothing, ignore) for number in range(5))
        )

    asyncio.run(ask_often())
    assert made == [1]
    assert sorted(calls) == ["/0", "/1", "/2", "/3", "/4"]


def test_the_plugin_of_the_page_imports_neither_fastapi_nor_what_makes_dags() -> None:
    heavy = ("fastapi", "pyspark", "great_expectations", "pyarrow", "kafka_ferry_airflow.factory")
    program = (
        "import sys, kafka_ferry_airflow.page.plugin as plugin\n"
        "from pathlib import Path\n"
        "plugin.fastapi_app(Path('.')), plugin.react_app()\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert told.stdout.strip() == "[]", told.stderr
