"""Test suites for those who write their own implementation of a Holdfast contract.

They need pytest and hypothesis, which Holdfast itself does not.
"""

import pytest

# The suites are imported, not collected, so pytest would not explain a failed assertion in them.
pytest.register_assert_rewrite(
    "holdfast.testing.ledger_machine",
    "holdfast.testing.ledger_records",
    "holdfast.testing.ledger_transactions",
    "holdfast.testing.objects",
    "holdfast.testing.sinks",
    "holdfast.testing.state_collections",
    "holdfast.testing.state_epochs",
    "holdfast.testing.state_machine",
    "holdfast.testing.state_partitions",
    "holdfast.testing.state_refusals",
    "holdfast.testing.state_rows",
    "holdfast.testing.state_search",
    "holdfast.testing.state_suite",
    "holdfast.testing.state_transactions",
    "holdfast.testing.state_types",
)
