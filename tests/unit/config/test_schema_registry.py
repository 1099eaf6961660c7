"""Where a flow's file says the schema registries are, and what it may say of schemas."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import PROPERTIES, SOURCE, TARGET, a_cluster

URL = "http://registry:8081"


def loaded(folder: Path, source: dict[str, object], **options: object) -> Flow:
    content = {
        "source": {"alias": "primary", **SOURCE, **source},
        "target": {"alias": "backup", **TARGET, "schema.registry.url": URL},
    }
    options = {"sync_schemas": "translate-ids", **options}
    content |= {name.replace("_", "."): value for name, value in options.items()}
    (folder / "flow.yaml").write_text(json.dumps(content))
    (flow,) = load_flows(folder / "flow.yaml")
    return flow


def test_a_registry_is_a_mapping_or_dotted_and_no_client_of_brokers_gets_it(
    tmp_path: Path,
) -> None:
    flow = loaded(tmp_path, {"schema.registry": {"url": URL, "timeout": 5}})

    assert dict(flow.source.registry_properties()) == {"url": URL, "timeout": "5"}
    assert dict(flow.target.registry_properties()) == {"url": URL}
    assert dict(flow.source.client_properties("consumer")) == SOURCE


def test_a_properties_file_has_it_after_the_alias(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"{PROPERTIES}primary.schema.registry.url = {URL}\nbackup.schema.registry.url = {URL}\n"
        "sync.schemas = keep-ids\nschemas.ids.in = orders:value, .*:none\n"
    )
    flow = load_flows(file)[0]
    assert flow.sync_schemas == "keep-ids"
    assert flow.source.has_registry
    assert [flow.schemas_ids_in.of(it) for it in ("orders", "clicks")] == ["value", "none"]


def test_its_secrets_come_from_config_providers_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", "me:5ecret")
    registry = {"url": URL, "basic.auth.user.info": "${env:REGISTRY}", "ssl.key.pem": "5ecret"}
    flow = loaded(tmp_path, {"schema.registry": registry}, config_providers="env")

    assert flow.source.registry_properties()["basic.auth.user.info"] == "me:5ecret"
    for shown in (flow, flow.source.resolve(), flow.source.registry_properties()):
        assert "5ecret" not in repr(shown)
    assert "5ecret" not in flow.source.resolve().model_dump_json()


@pytest.mark.parametrize(
    ("registry", "options", "why"),
    [
        ({}, {}, "needs schema.registry.url of both clusters: primary has none"),
        ({"schema.registry.url": "registry:8081"}, {}, "must be an address"),
        ({"schema.registry.url": "http://me:pw@registry"}, {}, "must hold no user and password"),
        ({"schema.registry": {"url": URL, "proxy": "http://me:pw@p"}}, {}, "must hold no user"),
        ({"schema.registry": {"url": URL, "usr": 1}}, {}, "schema.registry.usr"),
        ({"schema.registry": "x"}, {}, "must be a mapping"),
        (
            {"schema.registry": {"url": URL, "bearer.auth.credentials.source": "X"}},
            {},
            "must be one of STATIC_TOKEN, OAUTHBEARER",
        ),
        ({"schema.registry.url": URL}, {"sync_schemas": "both"}, "translate-ids"),
        ({"schema.registry.url": URL}, {"schemas_ids_in": {"a": "x"}}, "must be one of subjects"),
        ({"schema.registry.url": URL}, {"schemas_subjects": ["("]}, "regular expression"),
    ],
)
def test_what_no_registry_could_be_is_refused(
    tmp_path: Path, registry: dict[str, object], options: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, registry, **options)
    assert why in str(error.value)
    assert "pw" not in str(error.value)


def test_many_wrong_addresses_take_no_square_of_their_number(tmp_path: Path) -> None:
    began = process_time()
    with pytest.raises(ConfigError):
        loaded(tmp_path, {"schema.registry.url": "${a:b}," * 5_000})
    assert process_time() - began < 4


def test_a_rule_for_avro_needs_the_registry_of_the_source(tmp_path: Path) -> None:
    rule = {"topics": ["orders"], "format": {"value": "avro"}, "where": "value.n > 1"}
    options: dict[str, object] = {"transform": [rule], "sync_schemas": "none"}
    loaded(tmp_path, {"schema.registry.url": URL}, **options)
    with pytest.raises(ConfigError, match=r"needs schema\.registry\.url of the source: primary"):
        loaded(tmp_path, {}, **options)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    cluster = a_cluster(**{"schema.registry.url": URL, "schema.registry.ssl.ca.location": missing})
    with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.ca\.location.*No such file"):
        cluster.registry_properties()


def test_dead_letters_of_unknown_schemas_need_their_topic(tmp_path: Path) -> None:
    registry: dict[str, object] = {"schema.registry.url": URL}
    assert not loaded(tmp_path, registry).sets_records_aside
    assert loaded(tmp_path, registry, on_unknown_schema="dead-letter").sets_records_aside
    unused = {"on_unknown_schema": "dead-letter", "sync_schemas": "none"}
    assert not loaded(tmp_path, registry, **unused).sets_records_aside
