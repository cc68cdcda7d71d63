"""Pipelines that are described in Python instead of in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.config.loading import problems_of
from holdfast.config.root import Config
from holdfast.config.section import BASE_DIRECTORY
from holdfast.config.stream import StreamPipeline
from holdfast.errors import ConfigError


def stream_from_document(name: str, document: Mapping[str, Any]) -> StreamPipeline:
    """Check a stream pipeline under the rules of the file; relative paths start here."""
    data = {"pipeline": {name: document}}
    try:
        return Config.model_validate(data, context={BASE_DIRECTORY: Path.cwd()}).stream_named(name)
    except ValidationError as error:
        said = f"The stream {name} is not described right:"
        raise ConfigError(said, problems=problems_of(error)) from None
