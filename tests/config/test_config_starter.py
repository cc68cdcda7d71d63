"""The starter file."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config import STARTER, STREAM_STARTER, load_config, write_starter
from holdfast.errors import UsageError


def test_the_starter_loads(file: Path) -> None:
    """The first file a user has is a right one."""
    assert write_starter(file) == file
    bronze = load_config(file, environ={}).replications["bronze"]
    assert bronze.tables == ("orders", "customers")
    assert bronze.settings_for("orders").watermark == "updated_at"


def test_the_starter_loads_with_every_suggestion_taken(file: Path) -> None:
    """The keys that are commented out are right, too."""
    text = STARTER.replace("# [pipe", "[pipe").replace('# strategy = "merge"', 'strategy = "merge"')
    text = text.replace("# primary_key", "primary_key")
    file.write_text(text, encoding="utf-8")
    bronze = load_config(file, environ={}).replications["bronze"]
    assert bronze.settings_for("customers").strategy == "merge"


def test_the_starter_for_streams_loads(file: Path) -> None:
    """The other template is right, too, with every suggestion taken."""
    write_starter(file, template="stream")
    assert file.read_text(encoding="utf-8") == STREAM_STARTER
    payments = load_config(file, environ={}).stream_named("payments")
    assert [sink.name for sink in payments.sinks] == ["lake"]
    file.write_text(
        STREAM_STARTER.replace("\n# ", "\n")
        .replace("What", "# What", 1)
        .replace('"${VAR}"', '# "${VAR}"', 1),
        encoding="utf-8",
    )
    payments = load_config(file, environ={}).stream_named("payments")
    assert [sink.name for sink in payments.sinks] == ["lake", "screen"]
    assert payments.batch.max_ms == 1000


def test_an_unknown_template_is_refused(file: Path) -> None:
    """The templates there are, are named."""
    with pytest.raises(UsageError) as caught:
        write_starter(file, template="strem")
    assert str(caught.value) == "There is no template strem.\nThere are replicate, stream."
    assert not file.exists()


def test_an_existing_file_is_kept(file: Path) -> None:
    """Nothing is overwritten unless asked for."""
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        write_starter(file)
    assert str(caught.value) == (
        f"{file} already exists.\nUse --force to replace it with a starter file."
    )
    assert file.read_text(encoding="utf-8") == "mine"
    write_starter(file, force=True)
    assert file.read_text(encoding="utf-8") == STARTER


def test_missing_directories_are_made(tmp_path: Path) -> None:
    """A project can be begun from nothing."""
    write_starter(tmp_path / "new" / "shop" / "holdfast.toml")
    assert (tmp_path / "new/shop/holdfast.toml").read_text(encoding="utf-8") == STARTER


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the way of a directory is a user's mistake, not a crash."""
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"taken/holdfast\.toml cannot be written"):
        write_starter(tmp_path / "taken" / "holdfast.toml")
