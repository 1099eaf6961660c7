"""The DAG files of the installed package as a DAG bundle, so that an existing Airflow copies none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow.dag_processing.bundles.local import LocalDagBundle

DAG_FILES: Final = Path(__file__).parents[1] / "dag_files"


class KafkaFerryDagBundle(LocalDagBundle):
    """The folder of the package that holds the DAG files.

    Airflow's option ``[dag_processor] dag_bundle_config_list`` names this class, without a path: that
    differs from one Python to the next.

    Args:
        kwargs: what Airflow gives every bundle, such as its name.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(DAG_FILES), **kwargs)
