from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flow, load_flows
from kafka_ferry.config.problems import Problem
from kafka_ferry.config.providers import Providers
from kafka_ferry.errors import ConfigError

from .builders import properties_file, yaml_file

PACKAGE = "org.apache.kafka.common.config.provider."
DECLARED = f"""
config.providers = file, env,dir
config.providers.file.class = {PACKAGE}FileConfigProvider
config.providers.env.class = {PACKAGE}EnvVarConfigProvider
config.providers.dir.class = {PACKAGE}DirectoryConfigProvider
"""
SECRET = "correct-horse"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a properties file and a file of one value, and a variable of the environment."""
    folder = tmp_path / "secrets"
    (folder / "below").mkdir(parents=True)
    text = f"password = {SECRET}\nuser=anna\nkafka\\:user = carl\nempty =\nnested=${{env:FERRY_TEST}}\nname=müller"
    (folder / "kafka.properties").write_text(text, encoding="utf-8")
    (folder / "token").write_text(f"{SECRET}\n")
    (folder / "below" / "token").write_text("another")
    monkeypatch.setenv("FERRY_TEST", "from-the-environment")
    return folder


def resolved(value: str, told: dict[str, str] | None = None) -> tuple[str, list[Problem]]:
    problems: list[Problem] = []
    providers = Providers.declared(told or {}, problems, usual=True)
    return providers.resolve("key", value, problems), problems


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${file:{}/kafka.properties:password}", SECRET),
        ("${file:{}/kafka.properties:kafka:user}", "carl"),
        ("${file:{}/kafka.properties:name}", "müller"),
        ("${file:{}/kafka.properties:empty}", ""),
        ("${dir:{}:token}", SECRET),  # without the line's end, as Kafka trims values
        ("${env:FERRY_TEST}", "from-the-environment"),
        ("${env::FERRY_TEST}", "from-the-environment"),
        # in part, and several of them
        ("user=${file:{}/kafka.properties:user} x", "user=anna x"),
        ("${file:{}/kafka.properties:user}/${dir:{}/below:token}", "anna/another"),
        # what was found is not looked into again
        ("${file:{}/kafka.properties:nested}", "${env:FERRY_TEST}"),
        # no references
        ("${nothing}", "${nothing}"),
        ("${vault:path:key}", "${vault:path:key}"),
        ("$env:FERRY_TEST}", "$env:FERRY_TEST}"),
        (" kept as it is ", " kept as it is "),
    ],
)
def test_a_reference_stands_for_what_it_leads_to(secrets: Path, value: str, expected: str) -> None:
    assert resolved(value.replace("{}", str(secrets))) == (expected, [])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${file:{}/kafka.properties:passwort}", "finds no key 'passwort' in that file"),
        ("${file:{}/missing:key}", "cannot be read: No such file"),
        ("${file:{}:key}", "cannot be read: Is a directory"),
        ("${file:key}", "names no path"),
        ("${file::key}", "names no path"),
        ("${dir:{}:missing}", "finds no file 'missing' in that folder"),
        ("${dir:{}:below}", "finds no file 'below' in that folder"),
        ("${dir:{}/below:../token}", "finds no file '../token' in that folder"),
        ("${dir:{}/missing:token}", "is no folder"),
        ("${dir:token}", "names no path"),
        ("${env:FERRY_TEST_MISSING}", "is not set"),
        ("${env:path:FERRY_TEST}", "without a path"),
        ("${file:a\0b:key}", "cannot be read"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_problem_that_names_it(
    secrets: Path, value: str, reason: str
) -> None:
    value = value.replace("{}", str(secrets))
    text, (problem,) = resolved(f"x {value} ${{env:FERRY_TEST}}")
    assert value in problem.reason
    assert reason in problem.reason
    assert SECRET not in text


def test_a_file_that_is_no_text_is_a_problem_that_does_not_repeat_it(secrets: Path) -> None:
    for name in ("kafka.properties", "token"):
        (secrets / name).write_bytes(b"password=\xff" + SECRET.encode())
    for value in (f"${{file:{secrets}/kafka.properties:password}}", f"${{dir:{secrets}:token}}"):
        _, (problem,) = resolved(value)
        assert "UTF-8" in problem.reason
        assert SECRET not in problem.reason


def test_providers_read_only_what_they_may(secrets: Path) -> None:
    told = {
        "config.providers.file.param.allowed.paths": f"{secrets}/below, {secrets}/kafka.properties",
        "config.providers.dir.param.allowed.paths": f"{secrets}/below",
        "config.providers.env.param.allowlist.pattern": "FERRY_.*",
    }
    for value, allowed in {
        f"${{file:{secrets}/kafka.properties:user}}": True,
        f"${{file:{secrets}/below/../kafka.properties:user}}": True,
        f"${{file:{secrets}/below/../token:user}}": False,
        f"${{dir:{secrets}/below:token}}": True,
        f"${{dir:{secrets}:token}}": False,
        "${env:FERRY_TEST}": True,
        "${env:PATH}": False,
    }.items():
        text, problems = resolved(value, told)
        assert [("is outside of the provider's" in found.reason) for found in problems] == (
            [] if allowed else [True]
        )
        assert (text == value) is not allowed


@pytest.mark.parametrize(
    ("told", "key", "reason"),
    [
        ({"file.class": "company.Vault"}, "file.class", "must be one of org.apache.kafka.common"),
        ({"file.param.allowed.paths": "below"}, "file.param.allowed.paths", "an absolute path"),
        ({"file.param.allowed.paths": "/no/such"}, "file.param.allowed.paths", "does not exist"),
        ({"env.param.allowlist.pattern": "["}, "env.param.allowlist.pattern", "no valid regular"),
        ({"vault.class": f"{PACKAGE}FileConfigProvider"}, "vault.class", "belongs to no provider"),
    ],
)
def test_a_provider_that_cannot_be_is_a_problem(
    told: dict[str, str], key: str, reason: str
) -> None:
    _, (problem,) = resolved(
        "", {f"config.providers.{name}": value for name, value in told.items()}
    )
    assert problem.key == f"config.providers.{key}"
    assert reason in problem.reason


@pytest.mark.parametrize(
    "given", [f"{PACKAGE}EnvVarConfigProvider", "EnvVarConfigProvider", "EnvVar"]
)
def test_a_provider_may_have_any_name_and_connects_short_names_of_classes(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("FERRY_TEST", "x")
    told = {"config.providers": "mine", "config.providers.mine.class": given}
    assert resolved("${mine:FERRY_TEST}", told) == ("x", [])


# --- in files ------------------------------------------------------------------------------------


def the_flow(folder: Path, more: str) -> Flow:
    (flow,) = load_flows(properties_file(folder, more))
    return flow


def test_any_value_of_a_properties_file_may_stand_elsewhere(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST", "7")
    flow = the_flow(
        tmp_path,
        DECLARED
        + f"""
primary.sasl.jaas.config = required username="u" password="${{file:{secrets}/kafka.properties:password}}";
primary.consumer.ssl.key.password = ${{dir:{secrets}:token}}
writers = ${{env:FERRY_TEST}}
primary->backup.topics = a, ${{file:{secrets}/kafka.properties:user}}
""",
    )
    source = flow.source.client_properties("consumer")
    assert source["sasl.jaas.config"] == f'required username="u" password="{SECRET}";'
    assert source["ssl.key.password"] == SECRET
    assert (flow.writers, flow.topics) == (7, ("a", "anna"))
    assert flow.ignored == ()
    assert SECRET not in repr(flow)


def test_clusters_and_what_is_enabled_may_stand_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST_CLUSTERS", "primary, backup")
    monkeypatch.setenv("FERRY_TEST_ENABLED", "true")
    start = """
clusters = ${env:FERRY_TEST_CLUSTERS}
primary.bootstrap.servers = source:9092
backup.bootstrap.servers = target:9092
backup->primary.enabled = ${env:FERRY_TEST_ENABLED}
"""
    (flow,) = load_flows(properties_file(tmp_path, DECLARED, start=start))
    assert flow.name == "backup->primary"


def test_a_properties_file_declares_its_providers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flows(properties_file(tmp_path, "primary.ssl.key.password = ${env:HOME}"))
    assert caught.value.key == "primary.ssl.key.password"
    assert "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVar" in str(
        caught.value
    )


def test_what_is_wrong_with_references_is_listed_once_with_the_files_keys(
    tmp_path: Path, secrets: Path
) -> None:
    more = (
        DECLARED
        + f"""
backup->primary.enabled = true
writers = ${{env:FERRY_MISSING}}
primary.bootstrap.servers = ${{file:{secrets}/kafka.properties:servers}}
"""
    )
    with pytest.raises(ConfigError) as caught:
        load_flows(properties_file(tmp_path, more))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert "writers: ${env:FERRY_MISSING} is not set" in lines[0]
    assert f"primary.bootstrap.servers: ${{file:{secrets}/kafka.properties:servers}}" in lines[1]
    assert SECRET not in str(caught.value)


def test_in_yaml_the_usual_providers_are_always_there(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST", "7")
    start = f"""
source:
  alias: primary
  bootstrap.servers: ["a:1", "${{env:FERRY_TEST_HOST}}:2"]
  sasl.jaas.config: x password="${{file:{secrets}/kafka.properties:password}}";
  consumer: {{ssl.key.password: "${{dir:{secrets}:token}}"}}
target: {{alias: backup, bootstrap.servers: "c:3"}}
topics: ["${{file:{secrets}/kafka.properties:user}}"]
writers: ${{env:FERRY_TEST}}
offsets: {{orders: "${{file:{secrets}/kafka.properties:mode}}"}}
config.providers.file.param.allowed.paths: {secrets}
"""
    monkeypatch.setenv("FERRY_TEST_HOST", "host")
    with (secrets / "kafka.properties").open("a") as file:
        file.write("\nmode=preserved")
    flow = load_flow(yaml_file(tmp_path, start=start))
    source = flow.source.client_properties("consumer")
    assert source["bootstrap.servers"] == "a:1,host:2"
    assert source["sasl.jaas.config"] == f'x password="{SECRET}";'
    assert source["ssl.key.password"] == SECRET
    assert (flow.topics, flow.writers, flow.offsets.of("orders")) == (("anna",), 7, "preserved")


def test_a_reference_in_yaml_that_leads_nowhere_names_file_and_key(tmp_path: Path) -> None:
    file = yaml_file(tmp_path, "topics: [a, '${file:/no/such:key}']\nwriters: ${env:NO_SUCH}")
    with pytest.raises(ConfigError) as caught:
        load_flow(file)
    assert (caught.value.file, caught.value.key) == (str(file), "topics")
    assert "${file:/no/such:key} cannot be read: No such file" in str(caught.value)
    assert "writers: ${env:NO_SUCH} is not set" in str(caught.value)
