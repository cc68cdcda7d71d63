"""Schema names that carry meaning."""

from __future__ import annotations

import pytest

from holdfast.config import SchemaPattern, placeholders, render

PATTERN = SchemaPattern.compile("src__{tenant}__{region}__{source}")


def test_a_name_that_fits_gives_its_fields() -> None:
    """Placeholders become fields; single underscores belong to the values."""
    assert PATTERN.match("src__acme__eu_west__shop") == {
        "tenant": "acme",
        "region": "eu_west",
        "source": "shop",
    }


@pytest.mark.parametrize(
    "name",
    ["src__acme__eu", "acme__eu__shop", "src______shop", "src__a__b__c__d", "SRC__a__b__c", ""],
)
def test_a_name_that_does_not_fit_gives_nothing(name: str) -> None:
    """Too few parts, too many parts, empty parts or another case do not fit."""
    assert PATTERN.match(name) is None


def test_other_characters_stand_for_themselves() -> None:
    """A dot in a pattern is a dot."""
    pattern = SchemaPattern.compile("raw.{name}-v1")
    assert pattern.match("raw.shop-v1") == {"name": "shop"}
    assert pattern.match("rawxshop-v1") is None


def test_a_pattern_may_have_no_placeholder() -> None:
    """Then it is one name."""
    assert SchemaPattern.compile("shop").match("shop") == {}


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("{a}{b}", "two placeholders need a separator between them"),
        ("{a}_{a}", "{a} may occur only once"),
        ("x_{}", "{} is not a name made of letters, digits and _"),
        ("x_{a b}", "{a b} is not a name made of letters, digits and _"),
        ("x_{a", "a { or } has no partner"),
        ("x_a}", "a { or } has no partner"),
    ],
)
def test_a_wrong_pattern_is_explained(pattern: str, reason: str) -> None:
    """The reason is in plain words."""
    with pytest.raises(ValueError, match="^" + reason.replace("{", r"\{") + "$"):
        SchemaPattern.compile(pattern)


def test_a_template_is_filled_from_a_match() -> None:
    """The target's schema is made of the source's parts."""
    template = "staging__{region}__{source}"
    assert placeholders(template) == ("region", "source")
    fields = PATTERN.match("src__acme__eu__shop")
    assert fields is not None
    assert render(template, fields) == "staging__eu__shop"
    with pytest.raises(ValueError, match=r"^\{region\} is not among source$"):
        render(template, {"source": "shop"})
