"""Tokens as sinks write them down and compare them."""

from __future__ import annotations

import pytest

from holdfast.errors import SinkRefused
from holdfast.model import Token
from holdfast.spark.sinks.refusals import repeated, rolled_back

FIRST = Token("shop", 2, 7, "0198-a")


@pytest.mark.parametrize("token", [FIRST, Token("shop", 2, 7), Token("shop", 1, 0, "a/b")])
def test_a_token_is_read_as_it_was_written(token: Token) -> None:
    """With a batch or without one, the text says it all."""
    assert Token.parse(str(token)) == token
    assert str(token) == f"shop/{token.short}"


@pytest.mark.parametrize("text", ["", "shop", "shop/2", "shop/2/x", "shop/x/7/0198", "2/7"])
def test_other_texts_are_no_tokens(text: str) -> None:
    """What is not a token is not taken for one."""
    with pytest.raises(ValueError):  # noqa: PT011 - of no use to a user, and so never shown to one
        Token.parse(text)


def test_a_batch_has_no_place_in_the_order() -> None:
    """Only generation and epoch say which token is past another."""
    other = Token("shop", 2, 7, "0198-b")
    assert not other.follows(FIRST)
    assert not FIRST.follows(other)
    assert Token("shop", 2, 8, "0000").follows(FIRST)
    assert other != FIRST


@pytest.mark.parametrize(
    ("token", "last", "answer"),
    [
        (FIRST, None, False),
        (FIRST, Token("shop", 2, 6, "0198-a"), False),
        (FIRST, Token("shop", 1, 6), False),
        (FIRST, Token("shop", 1, 9), "has got to epoch 9 of generation 1"),
        (FIRST, FIRST, True),
        (FIRST, Token("shop", 2, 7), True),
        (Token("shop", 2, 7), FIRST, True),
        (FIRST, Token("shop", 2, 7, "0198-b"), "other rows under epoch 7 of generation 2"),
        (FIRST, Token("shop", 2, 8), "epoch 7 of generation 2 comes too late"),
        (FIRST, Token("shop", 3, 0, "0198-a"), "has taken epoch 0 of generation 3"),
    ],
)
def test_what_a_sink_makes_of_a_token(token: Token, last: Token | None, answer: bool | str) -> None:
    """New, taken before, or refused with what to do about it."""
    if isinstance(answer, bool):
        assert repeated("lake", token, last) == answer
        return
    with pytest.raises(SinkRefused, match=answer) as refused:
        repeated("lake", token, last)
    assert refused.value.message.startswith("Sink lake")
    assert refused.value.hint.endswith(
        "If the ledger was restored from an older copy: holdfast checkpoint repair shop, then "
        "holdfast checkpoint rollback shop latest, and run again."
    )


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (None, False),
        (Token("shop", 2, 9, "a"), False),
        (Token("shop", 3, 5), True),
        (Token("shop", 3, 6, "a"), "too late"),
        (Token("shop", 4, 1, "a"), "too late"),
    ],
)
def test_what_a_sink_makes_of_a_roll_back(last: Token | None, answer: bool | str) -> None:
    """New if its generation is; done if nothing came after it; refused if something did."""
    to = Token("shop", 3, 5)
    if isinstance(answer, bool):
        assert rolled_back("lake", to, last) == answer
    else:
        with pytest.raises(SinkRefused, match=answer):
            rolled_back("lake", to, last)
