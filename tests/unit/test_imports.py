"""What makes a short process's imports quicker takes nothing away."""

import subprocess
import sys


def said(code: str) -> str:
    """What another Python prints, which has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_arrow_imports_pandas_only_to_convert_to_it() -> None:
    code = (
        "from kafka_ferry.imports import prepare_imports; prepare_imports()\n"
        "import sys, pyarrow as pa; table = pa.table({'a': [1, 2]})\n"
        "print('pandas' in sys.modules, table.to_pandas()['a'].sum())\n"
        "import pandas as pd; print(pa.array(pd.Series([1.0, None])).null_count)"
    )
    assert said(code).split() == ["False", "3", "1"]


def test_pandas_that_is_there_already_is_used() -> None:
    code = (
        "import pandas as pd, pyarrow as pa\n"
        "from kafka_ferry.imports import prepare_imports; prepare_imports()\n"
        "print(pa.array(pd.Series([1.0, None])).null_count)"
    )
    assert said(code) == "1"


def test_a_command_that_reads_no_frame_imports_no_pandas() -> None:
    code = (
        "import sys, kafka_ferry.cli, pyarrow.compute as pc; pc.field('a') >= 1\n"
        "print({'pandas', 'great_expectations', 'pyspark'} & set(sys.modules))"
    )
    assert said(code) == "set()"
