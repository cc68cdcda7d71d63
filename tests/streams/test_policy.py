"""The commit policy decides over the set of sinks that acknowledged, not over their number."""

from __future__ import annotations

from itertools import combinations

import pytest

from holdfast.pipelines.streams.policy import Policy

SINKS = frozenset({"a", "b", "c"})
EVERY_SET = [frozenset(s) for n in range(4) for s in combinations(sorted(SINKS), n)]


@pytest.mark.parametrize("acknowledged", EVERY_SET)
def test_all_means_every_sink(acknowledged: frozenset[str]) -> None:
    """One that is missing holds the commit back."""
    policy = Policy("all", SINKS, frozenset({"a"}))
    assert policy.satisfied_by(acknowledged) == (acknowledged == SINKS)
    assert policy.holding_back(acknowledged) == SINKS - acknowledged


@pytest.mark.parametrize("acknowledged", EVERY_SET)
def test_required_means_every_required_sink(acknowledged: frozenset[str]) -> None:
    """Optional sinks can not stand in for a required one, however many they are."""
    policy = Policy("required", SINKS, frozenset({"a"}))
    assert policy.satisfied_by(acknowledged) == ("a" in acknowledged)
    assert policy.holding_back(acknowledged) == frozenset({"a"}) - acknowledged


@pytest.mark.parametrize("acknowledged", EVERY_SET)
def test_quorum_means_enough_sinks_and_every_required_one(acknowledged: frozenset[str]) -> None:
    """Two of three are not enough if the required one is the third."""
    policy = Policy("quorum", SINKS, frozenset({"a"}), 2)
    assert policy.satisfied_by(acknowledged) == (len(acknowledged) >= 2 and "a" in acknowledged)
    assert policy.satisfied_by(acknowledged) == (not policy.holding_back(acknowledged))


def test_names_of_others_do_not_count() -> None:
    """A sink that is not the pipeline's can not make up the number."""
    assert not Policy("quorum", SINKS, frozenset(), 2).satisfied_by({"a", "x", "y"})
