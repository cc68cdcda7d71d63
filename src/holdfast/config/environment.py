"""Environment variables in the configuration: `${VAR}` and `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.config.section import Finding, Location
from holdfast.config.spelling import closest
from holdfast.config.values import Expanded

_REFERENCE: Final = re.compile(
    r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|(?P<broken>\$\{[^}]*\}?)"
)


@dataclass(slots=True)
class Expansion:
    """Puts environment variables in place and notes every one that is missing."""

    environ: Mapping[str, str]
    found: list[Finding] = field(default_factory=list)

    def expand(self, value: Any, at: Location = ()) -> Any:
        """Return a value with every text in it expanded, however deep."""
        if isinstance(value, dict):
            return {key: self.expand(item, (*at, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.expand(item, (*at, index)) for index, item in enumerate(value)]
        return self._expand_text(value, at) if isinstance(value, str) else value

    def _expand_text(self, text: str, at: Location) -> str:
        expanded = _REFERENCE.sub(lambda match: self._replacement(match, at), text)
        from_environment = any(match["name"] for match in _REFERENCE.finditer(text))
        return Expanded(expanded, text) if from_environment else expanded

    def _replacement(self, match: re.Match[str], at: Location) -> str:
        if match["escaped"]:
            return "${"
        if match["broken"]:
            message = "expected ${VAR} or ${VAR:-default} (write $${ for a plain ${)"
            # What stands in the braces may be a secret pasted in the wrong place: not shown.
            self.found.append(Finding(at, f"a reference that starts with ${{ is broken, {message}"))
            return match[0]
        name, default = match["name"], match["default"]
        if default is not None:
            return self.environ.get(name) or default
        if name not in self.environ:
            message = f"the environment variable {name} is not set; set it, or write "
            meant = closest(name, self.environ, likeness=0.8)
            suggestion = f"${{{meant}}}" if meant else ""
            self.found.append(Finding(at, f"{message}${{{name}:-default}}", suggestion=suggestion))
            return match[0]
        return self.environ[name]
