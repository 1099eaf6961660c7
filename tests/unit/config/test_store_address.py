"""Which hosts the URI of a state folder names, beside the provider's own."""

from __future__ import annotations

import pytest

from kafka_ferry.config.store_address import store_hosts, store_options


@pytest.mark.parametrize(
    ("location", "hosts", "options"),
    [
        ("/srv/ferry?endpoint_override=a", [], []),
        ("file:///srv/ferry", [], []),
        ("hdfs://name:8020/ferry?user=a", [], []),
        ("hdfs://name/ferry?kerb_ticket=/tmp/krb5cc_0&a.b=c", [], ["a.b", "kerb_ticket"]),
        ("s3://bucket/ferry", [], []),
        ("s3://bucket.with.dots/ferry?region=eu-west-1", [], []),
        ("s3://bucket/ferry?scheme=http&endpoint_override=Minio:9000", ["minio"], ["scheme"]),
        ("S3://bucket/ferry?endpoint%5Foverride=minio:9000", ["minio"], []),
        ("s3://bucket/ferry?endpoint_override=a&endpoint_override=b:1", ["a", "b"], []),
        ("s3://bucket/ferry?region=a#&endpoint_override=b", ["b"], []),
        ("gs://bucket/ferry?endpoint_override=a.example:443", ["a.example"], []),
        ("gs://bucket?retry_limit_seconds=3&scheme=http", [], ["scheme"]),
        ("abfss://container/ferry", [], []),
        ("abfss://account.dfs.core.windows.net/container", [], []),
        (
            "abfss://account.blob.core.windows.net.example/container",
            ["account.blob.core.windows.net.example"],
            [],
        ),
        ("abfs://account@evil%2Eexample/x", ["account@evil.example"], []),
        (
            "abfs://evil%2eexample%2Fx.dfs.core.windows.net/x",
            ["evil.example/x.dfs.core.windows.net"],
            [],
        ),
        (
            "abfs://evil.example%2F.blob.core.windows.net/c/x",
            ["evil.example/.blob.core.windows.net"],
            [],
        ),
        ("abfss://container@account.dfs.core.windows.net/x", [], []),
        (
            "abfss://a@evil@account.dfs.core.windows.net/x",
            ["a@evil@account.dfs.core.windows.net"],
            [],
        ),
        ("abfs://localhost:10000/container?enable_tls=false", ["localhost"], ["enable_tls"]),
        ("abfs://container?dfs_storage_authority=.dfs.a.example", [".dfs.a.example"], []),
    ],
)
def test_a_location_s_hosts_and_options(
    location: str, hosts: list[str], options: list[str]
) -> None:
    assert (store_hosts(location), store_options(location)) == (hosts, options)
