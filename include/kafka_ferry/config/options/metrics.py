"""Where a flow's metrics go, in addition to Airflow and the report."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from kafka_ferry.config.options.base import Endpoint, Options, SecretFile


class MetricsOptions(Options):
    """The options of a flow about its metrics' destinations and detail."""

    metrics_detail: Literal["partition", "topic", "flow"] = Field(
        default="partition",
        description="The detail of the metrics: per partition, as in MirrorMaker 2, per topic, or for "
        "the flow as a whole. The report always has the partitions.",
    )
    metrics_prometheus_dir: str | None = Field(
        default=None,
        description="A folder in which each run leaves its metrics as kafka-ferry-{flow}.prom, such as "
        "the one that node_exporter's textfile collector reads. Relative as state.dir is.",
    )
    metrics_prometheus_push_url: Endpoint = Field(
        default=None,
        description="The Pushgateway that each run sends its metrics to: http:// or https://, without "
        "a user's name or password.",
    )
    metrics_prometheus_push_job: str = Field(
        default="kafka-ferry",
        min_length=1,
        description="The label job under which the Pushgateway keeps them, in addition to source and target.",
    )
    metrics_prometheus_push_credentials_file: SecretFile = Field(
        default=None,
        description="A properties file with username and password, or with token, for the Pushgateway; "
        "read only when metrics are pushed.",
    )

    @field_validator("metrics_prometheus_push_url")
    @classmethod
    def _says_where_and_no_more(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        if not url:
            return None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        if "@" in parts.netloc:
            raise ValueError(
                "must not hold a user's name or password: put them in the file that "
                "metrics.prometheus.push.credentials.file names"
            )
        if parts.query or parts.fragment:
            raise ValueError("must end with the path, without ? and #")
        return url.rstrip("/")
