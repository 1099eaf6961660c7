"""The tests, and the checkout that they are of."""

from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
