"""A roll-back moves the head, resets the sinks, and keeps what it abandoned listed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.checkpoint import Checkpoints
from holdfast.errors import CheckpointDamaged, CheckpointError, CheckpointMissing
from holdfast.model import SinkPosition, Token, Waiting

from .workshop import START, Workshop, path_of


def token(epoch: int, generation: int = 1) -> Token:
    """Return the token of an epoch."""
    return Token("payments", generation, epoch)


def waiting(*epochs: int) -> Waiting:
    """Return how batches of these epochs wait in a spool."""
    count = len(epochs)
    return Waiting(count, 100 * count, token(epochs[0]), token(epochs[-1]), START)


def tell(book: Checkpoints, sink: str, effect: str) -> None:
    """Record that a sink heard of the newest roll-back."""
    book.told(book.roll_backs()[0].to, sink, effect)


def test_back_and_on(workshop: Workshop) -> None:
    """The head goes back and the line goes on from there; the rest is abandoned but listed."""
    one, two, three = workshop.commits(3)
    workshop.checkpoints.intend(workshop.intent(), generation=1)
    generation = workshop.activate()
    workshop.sleep(hours=1)
    done = workshop.checkpoints.roll_back(
        one, generation=generation, actor="asha", note="a bad deploy", sinks=["lake", "kafka"]
    )
    head = workshop.checkpoints.head()
    assert head is not None
    assert (head.checkpoint_id, head.version, head.epoch) == (one.checkpoint_id, 1, 0)
    assert (head.generation, head.cause, head.newest_version) == (2, "rollback", 3)
    assert head.moved_at == workshop.now
    assert done.to == Token("payments", 2, 0)
    assert (done.from_version, done.to_version) == (3, 1)
    assert (done.actor, done.note, done.at) == ("asha", "a bad deploy", workshop.now)
    assert workshop.checkpoints.intent() is None
    assert workshop.checkpoints.line() == [one]
    four = workshop.commit()
    assert (four.version, four.epoch, four.generation, four.parent) == (4, 1, 2, one.checkpoint_id)
    assert workshop.checkpoints.line() == [four, one]
    assert workshop.checkpoints.entries() == [four, three, two, one]


def test_telling_the_sinks(workshop: Workshop) -> None:
    """A roll-back stays open until every sink was told, also across processes."""
    one = workshop.commits(2)[0]
    assert workshop.checkpoints.open_roll_back() is None
    workshop.roll_back(one, "lake", "kafka")
    book = workshop.reopen()
    found = book.open_roll_back()
    assert found is not None
    assert found.open_sinks == ("lake", "kafka")
    tell(book, "lake", "removed 1 batch")
    tell(book, "lake", "said twice")
    tell(book, "nobody", "was not asked")
    found = book.open_roll_back()
    assert found is not None
    assert (found.open_sinks, found.effects) == (("kafka",), {"lake": "removed 1 batch"})
    tell(book, "kafka", "keeps what it has")
    assert book.open_roll_back() is None
    (only,) = book.roll_backs()
    assert only.effects == {"lake": "removed 1 batch", "kafka": "keeps what it has"}


def test_roll_backs_are_remembered(workshop: Workshop) -> None:
    """Every roll-back is listed once, newest first, as it ended."""
    one = workshop.commit()
    for _ in range(3):
        workshop.commit()
        workshop.roll_back(one, "lake")
        tell(workshop.checkpoints, "lake", "done")
    listed = workshop.checkpoints.roll_backs()
    assert [(each.from_version, each.to.generation) for each in listed] == [(4, 4), (3, 3), (2, 2)]
    assert all(each.open_sinks == () for each in listed)


def test_sinks_go_back_too(workshop: Workshop) -> None:
    """A sink is where it was, except for what it got out of its spool since."""
    head = workshop.commit(
        sinks={
            "even": SinkPosition("exactly_once", token(0)),
            "slow": SinkPosition("exactly_once", None, waiting(0)),
            "caught_up": SinkPosition("exactly_once", None, waiting(0)),
        }
    )
    workshop.commits(
        3,
        sinks={
            "even": SinkPosition("exactly_once", token(3)),
            "slow": SinkPosition("exactly_once", None, waiting(0, 1, 2)),
            "caught_up": SinkPosition("exactly_once", token(2), waiting(3), (token(1),), 1),
            "added_later": SinkPosition("at_least_once", token(3)),
        },
    )
    workshop.roll_back(head)
    assert workshop.checkpoints.sink_positions() == {
        "even": SinkPosition("exactly_once", token(0)),
        "slow": SinkPosition("exactly_once", None, waiting(0)),
        "caught_up": SinkPosition("exactly_once", token(0)),
    }


def test_to_a_version_with_a_damaged_manifest(disk: Workshop) -> None:
    """The ledger's copy of a manifest is as good as the manifest."""
    one = disk.commits(2)[0]
    path_of(disk, one.manifest.key).unlink()
    disk.roll_back(one)
    assert disk.checkpoints.line() == [one]
    assert path_of(disk, one.manifest.key).exists()


def test_not_under_a_generation_that_delivered(workshop: Workshop) -> None:
    """Sinks take epochs for new again only under a newer generation, so an old one is refused."""
    one = workshop.commits(2)[0]
    head = workshop.checkpoints.head()
    with pytest.raises(CheckpointError, match="sinks may have seen 1") as caught:
        workshop.checkpoints.roll_back(one, generation=1, actor="", note="", sinks=())
    assert "new lease" in caught.value.hint
    workshop.activate()
    workshop.checkpoints.intend(workshop.intent(), generation=2)
    with pytest.raises(CheckpointError, match="sinks may have seen 2"):
        workshop.checkpoints.roll_back(one, generation=2, actor="", note="", sinks=())
    assert workshop.checkpoints.head() == head


def test_not_before_the_sinks_were_told_of_the_last_one(workshop: Workshop) -> None:
    """A sink hears of the newest roll-back only: one that goes less far back has to wait."""
    one = workshop.commits(3)[0]
    workshop.roll_back(one, "lake", "kafka")
    tell(workshop.checkpoints, "kafka", "done")
    four, _ = workshop.commits(2)
    with pytest.raises(CheckpointError, match="lake could not be told of the roll-back to"):
        workshop.roll_back(four, "lake", "kafka")
    tell(workshop.checkpoints, "lake", "done")
    workshop.roll_back(four, "lake", "kafka")
    assert workshop.checkpoints.resolve("head") == four


def test_one_that_goes_further_back_stands_for_the_one_before(workshop: Workshop) -> None:
    """It takes back all that the other did, so no sink has to hear of both."""
    one, two, _ = workshop.commits(3)
    workshop.roll_back(two, "lake")
    workshop.roll_back(one, "lake")
    found = workshop.checkpoints.open_roll_back()
    assert found is not None
    assert (found.to_version, found.open_sinks) == (1, ("lake",))


def test_what_was_told_of_an_older_roll_back_does_not_count(workshop: Workshop) -> None:
    """A process that was overtaken may report late; the newer roll-back is still open."""
    one, two, _ = workshop.commits(3)
    workshop.roll_back(two, "lake")
    older = workshop.checkpoints.roll_backs()[0].to
    workshop.roll_back(one, "lake")
    workshop.checkpoints.told(older, "lake", "too late")
    assert workshop.checkpoints.open_roll_back() is not None


def test_not_to_an_abandoned_line(workshop: Workshop) -> None:
    """What sinks have forgotten is not gone back to, unless somebody insists."""
    entries = workshop.commits(3)
    workshop.roll_back(entries[0])
    workshop.commit()
    with pytest.raises(CheckpointError, match="was abandoned by a roll-back"):
        workshop.roll_back(entries[2])
    assert [entry.version for entry in workshop.checkpoints.line()] == [4, 1]
    workshop.roll_back(entries[2], abandoned=True)
    assert [entry.version for entry in workshop.checkpoints.line()] == [3, 2, 1]


def test_not_to_a_version_that_is_gone(workshop: Workshop) -> None:
    """A version that retention removed is not gone back to."""
    one = workshop.commits(3)[0]
    workshop.sleep(hours=1)
    workshop.checkpoints.retain(min_count=1, min_age=timedelta())
    with pytest.raises(CheckpointMissing):
        workshop.roll_back(one)
    assert workshop.checkpoints.head().version == 3  # type: ignore[union-attr]


def test_not_to_a_damaged_version(disk: Workshop) -> None:
    """A version that no run could start from is refused before anything moves."""
    entries = disk.commits(3)
    path_of(disk, entries[0].files[0].key).unlink()
    with pytest.raises(CheckpointDamaged, match=r"Version 1 .* it is missing"):
        disk.roll_back(entries[0])
    assert [entry.version for entry in disk.checkpoints.line()] == [3, 2, 1]


def test_after_a_fall_back(disk: Workshop) -> None:
    """A run whose head is damaged rolls back to what is whole, and goes on."""
    entries = disk.commits(3)
    path_of(disk, entries[2].files[0].key).unlink()
    disk.activate()
    restored = disk.checkpoints.restore()
    assert restored is not None
    disk.checkpoints.roll_back(
        restored.entry, generation=disk.generation, actor="run", note="damaged", sinks=["lake"]
    )
    disk.commit()
    assert [entry.version for entry in disk.checkpoints.line()] == [4, 2, 1]
    again = disk.checkpoints.restore()
    assert again is not None
    assert again.notes == ()
