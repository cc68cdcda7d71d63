"""Columns are registered with the checkpoint at which they were first seen."""

from __future__ import annotations

import pytest

from holdfast.errors import SchemaConflict

from .world import SCHEMA, World

pytestmark = pytest.mark.spark


def test_a_schema_is_registered_once(world: World) -> None:
    """It is known since which version columns are what they are."""
    world.add()
    world.add()
    world.run()

    with world.project() as project:
        found = project.checkpoints("pay").schemas()
    assert [(entry.name, entry.version, entry.epoch) for entry in found] == [
        ("input", 1, 0),
        ("output", 1, 0),
    ]


def test_an_added_column_goes_on_and_is_recorded(world: World) -> None:
    """What is compatible needs nobody's consent, but is written down."""
    world.add()
    world.run()
    world.configure(schema=f"{SCHEMA}, note string")
    world.add(note="new")
    world.run()

    with world.project() as project:
        newest = project.checkpoints("pay").schemas()[-1]
    assert newest.version == 2
    assert newest.changes == ("column note (string) was added",)
    assert world.lake("id", "note") == world.expected("id", "note")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id long, paise long", r"column merchant \(string\) was removed"),
        ("id long, merchant string, paise string", "column paise was bigint, is string"),
    ],
)
def test_an_incompatible_change_stops(world: World, schema: str, said: str) -> None:
    """The difference is shown, and nothing of the batch is delivered."""
    world.add()
    world.run()
    before = world.lake()
    world.configure(schema=schema)
    world.add()

    with pytest.raises(SchemaConflict, match=said):
        world.run()
    assert world.lake() == before


def test_an_incompatible_change_goes_on_if_the_configuration_says_so(world: World) -> None:
    """A column that is gone is null from then on."""
    world.add()
    world.run()
    world.configure(schema="id long, paise long", keys='on_schema_change = "continue"')
    world.add()
    world.run()

    assert {row[0] for row in world.lake("id")} == {event["id"] for event in world.events}
    with world.project() as project:
        assert (
            "column merchant (string) was removed"
            in project.checkpoints("pay").schemas()[-1].changes
        )


def test_a_change_within_one_run_is_noticed(world: World) -> None:
    """A function may return other columns for another batch; that is a change as well."""
    (world.root / "fickle.py").write_text(
        "calls = []\n"
        "def f(frame):\n"
        "    calls.append(frame)\n"
        "    return frame if len(calls) == 1 else frame.drop('merchant')\n"
    )
    world.configure(keys='python = "fickle:f"')
    world.add()
    world.add()

    with pytest.raises(SchemaConflict, match=r"column merchant \(string\) was removed"):
        world.run()
    with world.project() as project:
        head = project.checkpoints("pay").head()
    assert head is not None
    assert head.version == 1
