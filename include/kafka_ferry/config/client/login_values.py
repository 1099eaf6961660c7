"""Values of a login's properties: numbers within bounds, words, and files that may travel with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafka_ferry.config.file_content import content_of
from kafka_ferry.errors import ConfigError

CARRIED: Final = "carried."
"""Before the name of a property that names a file: our own login module option with its content."""


@dataclass(frozen=True, slots=True)
class LoginFile:
    """A file that each fetch of a token reads again, so that it may be replaced at any time.

    Attributes:
        path: where it is; "" if there is only its content, which an Airflow connection may hold.
        key: the property that names it, for errors.
        carried: its content on the driver, for machines that lack the file; "" on the driver itself.
    """

    path: str
    key: str
    carried: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Its name for messages."""
        return self.path or "the text in the Airflow connection"

    def read(self, place: str) -> str:
        """Its content on this machine, or else the one that came with the login.

        Raises:
            ConfigError: there is neither.
        """
        if not self.path:
            return self.carried
        try:
            return content_of(Path(self.path)).decode("utf-8", errors="replace")
        except OSError as error:
            if self.carried:
                return self.carried
            reason = f"{self.path} cannot be read: {error.strerror}"
            raise ConfigError(place, self.key, reason) from None


class LoginValues:
    """The properties of a login, with errors that name the place to fix."""

    def __init__(
        self, properties: Mapping[str, str], options: Mapping[str, str], place: str
    ) -> None:
        self.place = place
        self._properties, self._options = properties, options

    def text(self, key: str, option: str = "") -> str:
        """A property, or else the login module's option; "" where both are missing or blank."""
        return self._properties.get(key, self._options.get(option, "")).strip()

    def file(self, key: str) -> LoginFile | None:
        """The file that the property names, None where there is none."""
        path, carried = self.text(key), self._options.get(f"{CARRIED}{key}", "")
        return LoginFile(path, key, carried) if path or carried else None

    def whole_number(self, key: str, default: int, most: int = 2**31 - 1) -> int:
        """A property that is a whole number from 0 to ``most``.

        Raises:
            ConfigError: it is something else.
        """
        text = self._properties.get(key, str(default)).strip()
        if not (text.isascii() and text.isdecimal() and int(text) <= most):
            limit = "" if most >= 2**31 - 1 else f" to {most}"
            raise ConfigError(self.place, key, f"must be a whole number from 0{limit}")
        return int(text)

    def share(self, key: str, default: float) -> float:
        """A property that is a number from 0 to 1.

        Raises:
            ConfigError: it is something else.
        """
        try:
            number = float(self._properties.get(key, default))
        except ValueError:
            number = -1
        if not 0 <= number <= 1:
            raise ConfigError(self.place, key, "must be a number from 0 to 1")
        return number

    def truth(self, key: str) -> bool:
        """A property that is true or false, by default false.

        Raises:
            ConfigError: it is something else.
        """
        text = self._properties.get(key, "false").strip().lower()
        if text not in ("true", "false"):
            raise ConfigError(self.place, key, "must be true or false")
        return text == "true"
