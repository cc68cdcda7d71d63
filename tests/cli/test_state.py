"""Looking at what is remembered, and changing it on purpose."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from .harness import Commands, Shop, latest, rows

pytestmark = pytest.mark.spark


def watermarks(cli: Commands) -> dict[str, object]:
    """Where every table stands."""
    tables = cli("state", "show", "-o", "json").json["tables"]
    return {entry["table"]: entry["watermark"]["last_value"] for entry in tables}


def test_nothing_yet(shop: Shop, cli: Commands) -> None:
    """Before the first run there is nothing to show, and that is no error."""
    shown = cli("state", "show")

    assert (shown.code, shown.out) == (0, "Nothing is remembered yet.\n")


def test_show_and_get(copied_shop: Shop, cli: Commands) -> None:
    """`show` lists tables by glob, `get` shows one field by field."""
    listed, chosen, one = cli("state", "show"), cli("state", "show", "*.cus*"), None
    one = cli("state", "get", "shop.orders")

    assert [line.split()[0] for line in listed.out.splitlines()] == [
        "table",
        "shop.customers",
        "shop.orders",
    ]
    assert "shop.customers  2026-01-01T00:00:07Z" in chosen.out
    assert "shop.orders" not in chosen.out
    assert re.search(r"^last_value +2026-01-01T00:00:07Z$", one.out, re.MULTILINE)
    assert re.search(r"^source rows +7 at ", one.out, re.MULTILINE)


def test_an_unknown_table(copied_shop: Shop, cli: Commands) -> None:
    """A table nobody knows ends in the nearest name and the command that lists them."""
    for words in (("get",), ("history",), ("delete", "--yes"), ("rewind", "--version", "1")):
        refused = cli("state", words[0], "shop.order", *words[1:])

        assert refused.code == 1
        assert "remembers no table shop.order. Did you mean shop.orders?" in refused.err
        assert "holdfast state show" in refused.err


def test_history_says_who_when_and_why(copied_shop: Shop, cli: Commands) -> None:
    """Every step is kept: the cause, the person, the note."""
    later = "2026-01-01T00:00:09Z"
    note = "skip the [bold] test rows :boom:"
    assert cli("state", "set", "shop.orders", later, "--yes", "--note", note).code == 0

    shown = cli("state", "history", "shop.orders")
    newest = cli("state", "history", "shop.orders", "--limit", "1", "-o", "json").json

    lines = shown.out.splitlines()
    assert [line.split()[0] for line in lines] == ["shop.orders", "version", "3", "2", "1"]
    assert note in lines[2]
    assert later in lines[2]
    assert " set " in lines[2]
    assert all(" run " in line for line in lines[3:])
    [step] = newest["versions"]
    assert (step["watermark"]["cause"], step["watermark"]["note"]) == ("set", note)
    assert "@" in step["watermark"]["actor"]


CHANGES = [
    ("set", "shop.orders", "2026-02-01T00:00:00Z"),
    ("rewind", "shop.orders", "--to", "2026-01-01T00:00:05Z"),
    ("rewind", "shop.*", "--version", "1"),
    ("delete", "shop.*"),
]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
@pytest.mark.parametrize("words", CHANGES, ids=lambda words: " ".join(words[:2]))
def test_declining_changes_nothing(
    copied_shop: Shop, cli: Commands, words: Sequence[str], answer: str
) -> None:
    """Without `--yes` the command asks; anything but yes leaves everything as it was."""
    before = watermarks(cli)

    declined = cli("state", *words, answer=answer)

    assert declined.code == 1
    assert words[1] in declined.err
    assert "[y/N]" in declined.err
    assert declined.out.strip() == ""
    assert watermarks(cli) == before


def test_a_glob_is_spelt_out_before_it_is_confirmed(copied_shop: Shop, cli: Commands) -> None:
    """Whoever confirms a glob sees which tables it stands for."""
    asked = cli("state", "delete", "shop.*", answer="n\n")

    assert "2 tables: shop.customers, shop.orders" in asked.err


def test_confirming_changes(copied_shop: Shop, cli: Commands) -> None:
    """Yes at the question does the same as `--yes`."""
    done = cli("state", "set", "shop.orders", "2026-02-01T00:00:00Z", answer="y\n")

    assert done.code == 0
    assert "shop.orders: watermark is 2026-02-01T00:00:00Z" in done.out
    assert watermarks(cli)["shop.orders"] == {"updated_at": "2026-02-01T00:00:00.000000Z"}


def test_set_skips_rows_on_purpose(copied_shop: Shop, spark_cli: Commands) -> None:
    """Rows at or before a watermark that was set are not copied, those after it are."""
    assert spark_cli("state", "set", "shop.orders", "2026-01-01T00:00:08Z", "-y").code == 0
    copied_shop.add("orders", "c", rows(8, 9))

    assert spark_cli("run", "--table", "orders").code == 0

    assert copied_shop.copy() == copied_shop.source() - latest(rows(8, 8))


def test_rewind_by_glob_copies_again_without_doubling(
    copied_shop: Shop, spark_cli: Commands
) -> None:
    """After a rewind the next run replaces the batches after the place it went back to."""
    rewound = spark_cli("state", "rewind", "shop.*", "--to", "2026-01-01T00:00:05Z", "--yes")
    remark = spark_cli("state", "show")
    # The corrected rows are what one rewinds for.
    for table in ("orders", "customers"):
        copied_shop.add(table, "b", rows(6, 7, "corrected"))

    assert rewound.code == 0
    assert rewound.out.count("the next run replaces 1 batch(es) after it") == 2
    assert remark.out.count("rewound") == 2
    assert spark_cli("run").code == 0
    for table in ("orders", "customers"):
        assert copied_shop.copy(table) == copied_shop.source(table)


def test_a_glob_that_is_refused_half_way_says_what_was_done(
    copied_shop: Shop, cli: Commands
) -> None:
    """Tables changed before the refused one are named, so that nobody has to guess."""
    assert cli("state", "delete", "shop.orders", "--yes").code == 0

    refused = cli("state", "rewind", "shop.*", "--version", "1", "--yes")

    assert refused.code == 1
    assert "shop.customers: watermark is 2026-01-01T00:00:05Z" in refused.err
    assert "shop.orders has no watermark to rewind." in refused.err
    assert watermarks(cli)["shop.customers"] == {"updated_at": "2026-01-01T00:00:05.000000Z"}


def test_delete_copies_everything_again(copied_shop: Shop, spark_cli: Commands) -> None:
    """Without a watermark the next run replaces the target by a whole new copy."""
    deleted = spark_cli("state", "delete", "shop.orders", "--yes", "--note", "start over")
    copied_shop.add("orders", "a", rows(1, 3))

    assert (deleted.code, deleted.out) == (
        0,
        "shop.orders: watermark deleted; the next run replaces the target.\n",
    )
    again = spark_cli("run", "--table", "orders", "-o", "json").json
    assert again["runs"][0]["tables"][0]["reason"] == "deleted"
    assert copied_shop.copy() == copied_shop.source()


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("set", "shop.orders", "a", "b"), "needs 1 value(s)", ""),
        (("set", "shop.orders", "yesterday"), "'yesterday' is not a value of type", ""),
        (("set", "shop.orders", "2026-01-01"), "copy rows a second time", "state rewind"),
        (("set", "shop.order", "2026-01-01"), "no table order", "Did you mean orders?"),
        (("rewind", "shop.orders"), "Give --to VALUE or --version N.", "state history"),
        (("rewind", "shop.orders", "--to", "2027-01-01"), "lies after the watermark", "state set"),
        (("rewind", "shop.orders", "--to", "2025-01-01"), "no batch that ends", "state delete"),
        (("rewind", "shop.orders", "--version", "9"), "no watermark in version 9", "history"),
    ],
)
def test_changes_that_make_no_sense(
    copied_shop: Shop, cli: Commands, words: tuple[str, ...], message: str, hint: str
) -> None:
    """A change that would lose or double rows, or means nothing, is refused with a way out."""
    before = watermarks(cli)

    refused = cli("state", *words, "--yes")

    assert refused.code == 1
    assert message in refused.err
    assert hint in refused.err
    assert watermarks(cli) == before


def test_migrate_an_up_to_date_ledger(copied_shop: Shop, cli: Commands) -> None:
    """A ledger of today's format is left alone, and that is said."""
    done = cli("state", "migrate")

    assert done.code == 0
    assert "already has format" in done.said


def test_migrate_without_a_ledger(shop: Shop, cli: Commands) -> None:
    """Nothing is made up where there is no ledger."""
    refused = cli("state", "migrate")

    assert refused.code == 1
    assert "There is no ledger file" in refused.err
    assert not shop.ledger.exists()
