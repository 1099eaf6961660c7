"""How a registry is asked: where, with which login, and what its answers mean."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.model.schemas import SchemaVersion
from kafka_ferry.schemas.registered import RegisteredSchema
from kafka_ferry.schemas.registry import RegistryRefused, SchemaRegistry, open_registry
from kafka_sandbox.logins.secure import Authority, Identity
from tests.support.servers.http_server import QuietHandler, http_server
from tests.support.servers.identity_provider import SECRET, identity_provider
from tests.unit.config.builders import a_cluster

AT = SchemaVersion("a", 3)
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema not found"})
PAGE = b"<html><body>Please log in</body></html>"


@dataclass
class HttpRegistry:
    """Answers each path with a status and JSON, and keeps what came."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def http_registry(identity: Identity | None = None) -> Iterator[HttpRegistry]:
    registry = HttpRegistry()

    class Handler(QuietHandler):
        def _take(self) -> None:
            asked = f"{self.command} {self.path}"
            registry.requests.append(
                (asked, dict(self.headers), json.loads(self.body() or b"null"))
            )
            status, answer = registry.answers.get(asked.partition("?")[0], NOT_FOUND)
            self.answer(
                status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            )

        do_GET = do_PUT = do_POST = _take

    with http_server(Handler, identity) as registry.url:
        yield registry


@pytest.fixture
def server() -> Iterator[HttpRegistry]:
    with http_registry() as registry:
        registry.answers["GET /subjects"] = (200, ["b", "a"])
        yield registry


def named(url: str, **properties: str) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in {"url": url, **properties}.items()}
    return {f"schema.registry.{name}": value for name, value in dotted.items()}


@pytest.mark.parametrize(
    ("login", "header"),
    [
        ({}, None),
        ({"basic_auth_user_info": "me:pass:word"}, "Basic bWU6cGFzczp3b3Jk"),
        ({"bearer_auth_token": "abc"}, "Bearer abc"),
    ],
)
def test_it_logs_in_as_its_properties_say(
    server: HttpRegistry, login: dict[str, str], header: str | None
) -> None:
    with open_registry(a_cluster(**named(server.url, **login))) as registry:
        assert registry.subjects() == ["a", "b"]

    ((_, headers, _),) = server.requests
    assert headers.get("Authorization") == header


def test_it_asks_for_a_token_where_it_is_told_to(server: HttpRegistry) -> None:
    with identity_provider() as provider:
        login = {
            "bearer_auth_credentials_source": "OAUTHBEARER",
            "bearer_auth_client_id": "ferry",
            "bearer_auth_client_secret": SECRET,
            "bearer_auth_scope": "registry",
            "bearer_auth_issuer_endpoint_url": provider.endpoint,
            "bearer_auth_logical_cluster": "lsrc-1",
        }
        with open_registry(a_cluster(**named(server.url, **login))) as registry:
            registry.subjects()
        wrong = login | {"bearer_auth_client_secret": "another"}
        with (
            open_registry(a_cluster(**named(server.url, **wrong))) as registry,
            pytest.raises(AccessDenied, match="There is no token") as error,
        ):
            registry.subjects()
    _, headers, _ = server.requests[0]
    assert headers["Authorization"].startswith("Bearer ey")
    assert headers["target-sr-cluster"] == "lsrc-1"
    assert "another" not in str(error.value)


def test_certificates_may_be_files_or_text_and_no_other_is_trusted(tmp_path: Path) -> None:
    authority, file = Authority("root"), tmp_path / "ca.pem"
    file.write_text(authority.pem)
    with http_registry(authority.issue("registry", "127.0.0.1")) as server:
        server.answers["GET /subjects"] = (200, [])
        for trust in ({"ssl_ca_location": str(file)}, {"ssl_ca_pem": authority.pem}):
            cluster = a_cluster(**named(server.url, **trust))
            # As on its way to a task, which has no files.
            for it in (cluster, cluster.resolve()):
                with open_registry(it) as registry:
                    assert registry.subjects() == []
        other = a_cluster(**named(server.url, ssl_ca_pem=Authority("other").pem))
        with open_registry(other) as registry, pytest.raises(ClusterUnreachable, match="CERT"):
            registry.subjects()


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (401, AccessDenied, "does not list its subjects: who are you"),
        (403, AccessDenied, "(403)"),
        (422, RegistryRefused, "who are you (422)"),
        (404, RegistryRefused, "(404)"),
        (501, RegistryRefused, "(501)"),
    ],
)
def test_an_error_says_which_registry_refuses_what(
    server: HttpRegistry, status: int, error: type[Exception], said: str
) -> None:
    server.answers["GET /subjects"] = (status, {"error_code": 1, "message": "who are you"})
    login = {"basic_auth_user_info": "me:secret"}
    with (
        open_registry(a_cluster(**named(server.url, **login))) as registry,
        pytest.raises(error) as raised,
    ):
        registry.subjects()
    assert said in str(raised.value)
    assert f"The schema registry of primary ({server.url})" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_login_that_a_registry_sends_back_is_not_shown(server: HttpRegistry) -> None:
    password = 'it\'s "secret"'
    header = b64encode(f"me:{password}".encode()).decode()
    message = f"Basic {header} of {password!r}, {quote(password)}, Bearer ey.J.x"
    server.answers["GET /subjects"] = (401, {"error_code": 1, "message": message})
    login = {"basic_auth_user_info": f"me:{password}"}
    with (
        open_registry(a_cluster(**named(server.url, **login))) as registry,
        pytest.raises(AccessDenied) as raised,
    ):
        registry.subjects()
    assert "Basic ******== of '******', ******, Bearer ******" in str(raised.value)


def test_of_what_a_registry_says_no_more_is_shown_than_people_read(server: HttpRegistry) -> None:
    server.answers["GET /subjects"] = (422, {"error_code": 1, "message": "no " * 2**20})
    with (
        open_registry(a_cluster(**named(server.url))) as registry,
        pytest.raises(RegistryRefused) as raised,
    ):
        registry.subjects()
    assert len(str(raised.value)) < 2_200


SCHEMA = {"subject": "a", "version": 3, "id": 70, "schema": "{}"}
# Python's reader of JSON gives up, with an error that is no ValueError.
DEEP = b"[" * 100_000
QUESTIONS: dict[str, tuple[Callable[[SchemaRegistry], object], list[object]]] = {
    "GET /subjects": (lambda it: it.subjects(), [None, {"foo": 1}, "ab", [1], [None]]),
    "GET /subjects/a/versions": (lambda it: it.versions("a"), [None, {"1": 1}, ["1"], [True]]),
    "GET /subjects/a/versions/3": (
        lambda it: it.schema(AT),
        [
            *(None, [], {"schema": "{}"}, SCHEMA | {"id": "70"}, SCHEMA | {"id": None}),
            *(SCHEMA | {"schema": None}, SCHEMA | {"schema": 1}, SCHEMA | {"references": 7}),
            *(SCHEMA | {"references": [{"name": "n", "subject": "s", "version": None}]},),
            *(SCHEMA | {"id": 2**31}, SCHEMA | {"id": -1}),
            *(SCHEMA | {"guid": 4}, SCHEMA | {"schemaType": 4}, SCHEMA | {"metadata": []}),
        ],
    ),
    "GET /schemas/ids/70": (lambda it: it.with_id(70), [None, [], {"foo": 1}, {"schema": 1}]),
    "GET /schemas/ids/70/versions": (
        lambda it: it.places(70),
        [None, {"subject": "a"}, [1], [{"subject": "a"}], [{"subject": None, "version": 1}]],
    ),
    "GET /schemas/guids/g": (lambda it: it.with_guid("g"), [None, [], {"foo": 1}]),
    "POST /subjects/a": (
        lambda it: it.find(RegisteredSchema(AT, 0, "{}")),
        [None, [], {"subject": "a", "id": 70}, {"version": "3", "subject": "a", "id": 70}],
    ),
    "POST /subjects/a/versions": (
        lambda it: it.register(RegisteredSchema(AT, 0, "{}"), with_id=False),
        [None, [], {}, {"id": "70"}],
    ),
    "GET /config/a": (lambda it: it.level("a"), [None, [], {}, {"compatibilityLevel": 1}]),
    "GET /mode/a": (lambda it: it.mode("a"), [None, [], {}, {"mode": None}]),
    "GET /mode": (lambda it: it.global_mode(), [None, [], {}]),
}


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_answer_that_is_no_registrys_is_an_error_that_names_the_registry(
    server: HttpRegistry, path: str
) -> None:
    ask, answers = QUESTIONS[path]
    for status, answer in [(302, PAGE), *((200, it) for it in (PAGE, b"\xff", DEEP, *answers))]:
        server.answers[path] = (status, answer)
        with (
            open_registry(a_cluster(**named(server.url))) as registry,
            pytest.raises(FerryError) as raised,
        ):
            ask(registry)
        assert f"The schema registry of primary ({server.url})" in str(raised.value), answer
        # It may be another service's secret.
        assert "foo" not in str(raised.value)
        if status == 200:
            assert "not answer as a schema registry does" in str(raised.value)
            assert "schema.registry.url" in raised.value.advice


@pytest.mark.parametrize("answer", [PAGE, {}, {"message": "no such path"}, []])
@pytest.mark.parametrize(
    "path",
    [
        "GET /subjects/a/versions",
        "GET /schemas/ids/70",
        "GET /schemas/ids/70/versions",
        "POST /subjects/a",
    ],
)
def test_that_a_path_is_unknown_says_nothing_about_schemas(
    server: HttpRegistry, path: str, answer: object
) -> None:
    ask, _ = QUESTIONS[path]
    server.answers[path] = (404, answer)
    with (
        open_registry(a_cluster(**named(server.url))) as registry,
        pytest.raises(ClusterUnreachable, match="not answer as a schema registry does"),
    ):
        ask(registry)


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_redirect_is_not_followed_and_says_nothing_about_schemas(
    server: HttpRegistry, path: str
) -> None:
    ask, _ = QUESTIONS[path]
    server.answers[path] = (307, {"error_code": 40403, "message": "elsewhere"})
    with (
        open_registry(a_cluster(**named(server.url))) as registry,
        pytest.raises(ClusterUnreachable, match="HTTP 307, a redirect, which is not followed"),
    ):
        ask(registry)


def test_a_schema_is_found_by_its_id(server: HttpRegistry) -> None:
    reference = {"name": "n", "subject": "b", "version": 2}
    server.answers["GET /subjects/a/versions/3"] = (200, SCHEMA | {"references": [reference]})
    by_id = {"schema": "{}", "references": [reference]}
    server.answers["GET /schemas/ids/70"] = (200, by_id)
    with open_registry(a_cluster(**named(server.url))) as registry:
        found = registry.with_id(70)
        assert found
        assert found.digest == registry.schema(AT).digest
        assert registry.with_id(71) is None
    others = [by_id | it for it in ({"schema": "[]"}, {"references": []}, {"schemaType": "JSON"})]
    for other in others:
        server.answers["GET /schemas/ids/70"] = (200, other)
        with open_registry(a_cluster(**named(server.url))) as registry:
            assert registry.with_id(70) not in (None, found)


def test_what_it_does_not_know_is_none(server: HttpRegistry) -> None:
    with open_registry(a_cluster(**named(server.url))) as registry:
        assert registry.versions("a") == []
        assert registry.places(7) == []
        assert registry.with_id(7) is None
        # A producer writes any four bytes; registries that take no such number answer as if they knew no such path.
        no_path = (404, {"error_code": 0, "message": "Unable to extract parameter"})
        server.answers["GET /schemas/ids/2147483648/versions"] = no_path
        server.answers["GET /schemas/ids/2147483648"] = no_path
        assert registry.places(2**31) == []
        assert registry.with_id(2**31) is None
        assert (registry.level("a"), registry.mode("a"), registry.global_mode()) == ("", "", "")
        assert registry.find(RegisteredSchema(AT, 0, '"int"')) is None


def test_a_schema_is_written_as_it_was_read_with_what_the_api_does_not_show(
    server: HttpRegistry,
) -> None:
    reference = {"name": "n", "subject": "s", "version": 2}
    answer = {
        **{"subject": "a", "version": 3, "id": 70, "guid": "no GUID", "schemaType": "JSON"},
        **{"schema": "{}", "references": [reference], "metadata": {"properties": {"owner": "me"}}},
    }
    server.answers["GET /subjects/a/versions/3"] = (200, answer)
    server.answers["POST /subjects/a/versions"] = (200, {"id": 70})
    with open_registry(a_cluster(**named(server.url))) as registry:
        schema = registry.schema(AT)
        registry.register(schema, with_id=True)

    assert (schema.id, schema.guid, schema.kind) == (70, "", "JSON")
    assert schema.references == (("n", SchemaVersion("s", 2)),)
    _, _, body = server.requests[-1]
    assert (body["id"], body["version"], body["references"]) == (70, 3, [reference])
    assert body["metadata"]["properties"] == {"owner": "me"}


def test_without_an_id_a_request_has_none(server: HttpRegistry) -> None:
    server.answers["POST /subjects/a/versions"] = (200, {"id": 70})
    with open_registry(a_cluster(**named(server.url))) as registry:
        registry.register(RegisteredSchema(AT, 7, '"int"'), with_id=False)
    _, _, body = server.requests[-1]
    assert "id" not in body
    assert "version" not in body


def test_settings_are_read_and_set(server: HttpRegistry) -> None:
    server.answers |= {
        "GET /config/a": (200, {"compatibilityLevel": "FULL"}),
        "PUT /config/a": (200, {"compatibility": "NONE"}),
        "GET /mode/a": (200, {"mode": "READONLY"}),
        "GET /mode": (200, {"mode": "IMPORT"}),
        "PUT /mode/a": (200, {"mode": "IMPORT"}),
    }
    with open_registry(a_cluster(**named(server.url))) as registry:
        assert (registry.level("a"), registry.mode("a")) == ("FULL", "READONLY")
        assert registry.global_mode() == "IMPORT"
        registry.set_level("a", "NONE")
        registry.set_mode("a", "IMPORT")
    assert [body for _, _, body in server.requests[-2:]] == [
        {"compatibility": "NONE"},
        {"mode": "IMPORT"},
    ]


def test_properties_that_the_client_refuses_are_named() -> None:
    properties = named("http://127.0.0.1:1", bearer_auth_credentials_source="OAUTHBEARER")
    with (
        pytest.raises(ConfigError, match=r"schema\.registry"),
        open_registry(a_cluster(**properties)),
    ):
        pass


def test_a_flow_without_a_registry_loads_none_of_its_client() -> None:
    code = (
        "import sys; import kafka_ferry.runs.run, kafka_ferry.copy, kafka_ferry.runs.mirror.mirror;"
        "assert not [it for it in sys.modules if it.startswith(('httpx', 'authlib', "
        "'confluent_kafka.schema_registry', 'kafka_ferry.schemas.registry'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_schema_is_found_by_its_guid_where_the_registry_has_guids(server: HttpRegistry) -> None:
    guid = "0f0f0f0f-0000-0000-0000-000000000001"
    reference = {"name": "n", "subject": "b", "version": 2}
    found = {"schema": "{}", "schemaType": "JSON", "references": [reference], "guid": guid}
    server.answers[f"GET /schemas/guids/{guid}"] = (200, found)
    with open_registry(a_cluster(**named(server.url))) as registry:
        schema = registry.with_guid(guid)
        assert registry.with_guid("0f0f0f0f-0000-0000-0000-000000000002") is None
    assert schema
    assert (schema.text, schema.kind, schema.guid) == ("{}", "JSON", guid)
    assert schema.references == (("n", SchemaVersion("b", 2)),)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("packed", "packs its answer"),
        ("long", "more than 64 MiB"),
        ("slow", "1 s"),
        ("slow token", "1 s"),
    ],
)
def test_an_answer_that_has_no_end_is_given_up(how: str, why: str) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if how == "packed":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            piece = gzip.compress(bytes(2**24)) if how == "packed" else bytes(2**20)
            with suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b" " if how.startswith("slow") else piece)
                    time.sleep(0.1 if how.startswith("slow") else 0)

        do_POST = do_GET

    with http_server(Handler) as url:
        login = {
            "bearer_auth_credentials_source": "OAUTHBEARER",
            "bearer_auth_client_id": "me",
            "bearer_auth_client_secret": "secret",
            "bearer_auth_scope": "all",
            "bearer_auth_logical_cluster": "lsrc-1",
            "bearer_auth_identity_pool_id": "pool-1",
            "bearer_auth_issuer_endpoint_url": f"{url}/token",
        }
        more = login if how == "slow token" else {}
        cluster = a_cluster("primary", **named(url, timeout="1", **more))
        with (
            open_registry(cluster) as registry,
            pytest.raises((ClusterUnreachable, AccessDenied, RegistryRefused), match=why),
        ):
            began = time.monotonic()
            registry.subjects()
    assert time.monotonic() - began < 15


def test_an_answer_of_too_many_values_is_given_up(server: HttpRegistry) -> None:
    """Each takes a hundred times its bytes in memory."""
    server.answers["GET /subjects"] = (200, b"[" + b'{"":0},' * 600_000 + b"0]")
    with (
        open_registry(a_cluster("primary", **named(server.url))) as registry,
        pytest.raises(RegistryRefused, match="more than 1,000,000 values"),
    ):
        registry.subjects()


@pytest.mark.parametrize("subject", ["x" * 70_000, "\ud800"], ids=["long", "half a character"])
def test_a_name_that_no_address_holds_stops_only_what_has_it(
    server: HttpRegistry, subject: str
) -> None:
    with (
        open_registry(a_cluster("primary", **named(server.url))) as registry,
        pytest.raises(RegistryRefused, match="cannot be asked to read") as raised,
    ):
        registry.schema(SchemaVersion(subject, 1))
    assert len(str(raised.value)) < 4_500


def test_no_schema_is_kept_that_was_read(server: HttpRegistry) -> None:
    """A registry, or who may register schemas there, could else fill a task's memory."""
    server.answers["GET /subjects/a/versions/3"] = (
        200,
        {"subject": "a", "version": 3, "id": 7, "schema": "{}"},
    )
    with open_registry(a_cluster("primary", **named(server.url))) as registry:
        assert registry.schema(AT) == registry.schema(AT)
    assert len(server.requests) == 2
