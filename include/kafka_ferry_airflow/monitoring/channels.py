"""Sends notices: each kind of channel through the notifier of its provider, by connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook

from kafka_ferry.config.options.notify import Channel, Kind
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.printable import excerpt

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

    from kafka_ferry.config import Flow
    from kafka_ferry.report.notice import Notice

PROVIDERS: Final[Mapping[Kind, str]] = {"slack": "slack", "email": "smtp", "webhook": "http"}
"""Each kind's provider, as Airflow names it: ``apache-airflow-providers-{name}``."""

_TYPES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "slack": ("slackwebhook",),
    "email": ("smtp",),
    "webhook": ("http", "https"),
}

_TIMEOUT_S: Final = 20  # requests has none of its own
# A redirect would take a login and headers elsewhere, or to where only this machine reaches. What an answer says is
# not read: it may be of any length.
_HTTP: Final[Mapping[str, Any]] = {"timeout": _TIMEOUT_S, "allow_redirects": False, "stream": True}
_LONGEST_SUBJECT: Final = 200


def check_providers(flow: Flow) -> None:
    """Does nothing where all channels of a flow can be notified.

    Raises:
        ConfigError: the provider of one is not installed.
    """
    for channel in flow.notify:
        provider = PROVIDERS[channel.kind]
        if find_spec(f"airflow.providers.{provider}") is None:
            package = f"apache-airflow-providers-{provider}"
            reason = f"{channel.kind} needs {package}, which is not installed."
            raise ConfigError(
                flow.file, "notify", reason, advice=f"Add {package} to requirements.txt."
            )


def send(channel: Channel, notice: Notice, links: Mapping[str, str]) -> None:
    """Notifies one channel.

    Args:
        channel: the channel.
        notice: the notice.
        links: names and addresses of further pages.

    Raises:
        Exception: any error of the provider, whose text may contain secrets.
    """
    _check_connection(channel)
    # Not called like an Airflow callback: that would render the texts as templates, and messages of
    # brokers and Java are not our templates.
    _NOTIFIERS[channel.kind](channel, notice, links).notify({})


def _check_connection(channel: Channel) -> None:
    """Does nothing where a channel's connection is one for this, and says where its login goes.

    Another kind's login would be sent to wherever the flow's file says.
    """
    connection = BaseHook.get_connection(channel.connection)
    kinds = _TYPES[channel.kind]
    if connection.conn_type not in kinds:
        reason = f"the connection {channel.connection!r} is of the type {connection.conn_type}, not {kinds[0]}"
        raise ConfigError("notify", channel.name, reason)
    if channel.kind == "webhook" and not connection.host:
        reason = f"the connection {channel.connection!r} names no host"
        raise ConfigError("notify", channel.name, reason)


def _slack(channel: Channel, notice: Notice, links: Mapping[str, str]) -> BaseNotifier:
    from airflow.providers.slack.notifications.slack_webhook import (  # noqa: PLC0415
        SlackWebhookNotifier,
    )

    text = [f"*{_for_slack(notice.title)}*", _for_slack(f"Run {notice.run}"), ""]
    text += map(_for_slack, notice.lines)
    text += ["", " | ".join(f"<{url}|{name}>" for name, url in links.items())]

    class Slack(SlackWebhookNotifier):
        """Without Slack's own client, which reads any answer to its end and follows redirects: hosts other than Slack's
        take such messages too.
        """

        def notify(self, _: Any) -> None:
            import requests  # noqa: PLC0415

            client = self.hook.client
            try:
                answer = requests.post(
                    client.url,
                    json={"text": self.text, "unfurl_links": False},
                    proxies=dict.fromkeys(("http", "https"), client.proxy)
                    if client.proxy
                    else None,
                    **_HTTP,
                )
            except requests.RequestException as error:
                # Its text has the address, which is the secret.
                reason = f"{channel.name} gives no answer: {type(error).__name__}."
                raise FerryError(reason) from None
            _require_success(channel, answer)

    return Slack(slack_webhook_conn_id=channel.connection, text="\n".join(text), timeout=_TIMEOUT_S)


def _email(channel: Channel, notice: Notice, links: Mapping[str, str]) -> BaseNotifier:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier  # noqa: PLC0415

    return SmtpNotifier(
        smtp_conn_id=channel.connection,
        to=list(channel.to),
        subject=f"Kafka Ferry: {notice.title}"[:_LONGEST_SUBJECT],
        html_content=_html(notice, links),
    )


def _webhook(channel: Channel, notice: Notice, links: Mapping[str, str]) -> BaseNotifier:
    from airflow.providers.http.notifications.http import HttpNotifier  # noqa: PLC0415

    class Webhook(HttpNotifier):
        """Sends to the connection's host alone."""

        def notify(self, _: Any) -> None:
            answer = self.hook.run(self.endpoint, json=self.json, extra_options=self.extra_options)
            _require_success(channel, answer)

    return Webhook(
        http_conn_id=channel.connection,
        endpoint=channel.endpoint,
        json=payload(notice, links),
        extra_options={**_HTTP, "check_response": False},
    )


def _require_success(channel: Channel, answer: Any) -> None:
    with answer:
        if not 200 <= answer.status_code < 300:
            what = "a redirect, which is not followed" if answer.is_redirect else answer.reason
            raise FerryError(f"{channel.name} answers HTTP {answer.status_code}: {excerpt(what)}.")


_NOTIFIERS: Final[Mapping[Kind, Callable[[Channel, Notice, Mapping[str, str]], BaseNotifier]]] = {
    "slack": _slack,
    "email": _email,
    "webhook": _webhook,
}


def payload(notice: Notice, links: Mapping[str, str]) -> dict[str, Any]:
    """A webhook's payload: the notice for programs, and its text for people."""
    return {
        "flow": notice.flow,
        "run": notice.run,
        "at": notice.at,
        "event": notice.facts[0].event,
        "title": notice.title,
        "text": "\n".join(notice.lines),
        "facts": [
            {
                "event": fact.event,
                "headline": fact.headline,
                "details": list(fact.details),
                "more": fact.more,
                "advice": fact.advice,
            }
            for fact in notice.facts
        ],
        "links": dict(links),
    }


def _for_slack(text: str) -> str:
    """Text in which nothing is a link, a mention or markup to Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _html(notice: Notice, links: Mapping[str, str]) -> str:
    """An e-mail's body, for mail programs on any screen, without anything to load."""
    parts = [f"<p><b>{escape(notice.title)}</b><br>Run {escape(notice.run)}</p>"]
    for fact in notice.facts:
        details = [*fact.details, *([f"and {fact.more:,} more"] if fact.more else ())]
        listed = "".join(f"<li>{escape(detail)}</li>" for detail in details)
        parts.append(f"<p><b>{fact.event.upper()}</b>: {escape(fact.headline)}.</p>")
        parts.append(f"<ul>{listed}</ul>" if listed else "")
        parts.append(f"<p>What to do: {escape(fact.advice)}</p>" if fact.advice else "")
    addresses = (f'<a href="{escape(url)}">{escape(name)}</a>' for name, url in links.items())
    return "\n".join([*filter(None, parts), f"<p>{' | '.join(addresses)}</p>"])
