"""Telling whether what a pipeline copies has moved."""

from __future__ import annotations

import json

from config_files import COMPLETE, PIPELINE, TABLES, Load

from holdfast.config import differences, fingerprint, pipeline_document

JDBC = """
[pipeline.erp]
type = "replicate"
source = { format = "jdbc", options = { url = "jdbc:x", user = "me", password = "${P}" } }
target = { path = "/lake" }
tables = ["orders"]
watermark = "ts"
"""


def test_the_document_is_plain_json(load: Load) -> None:
    """It can be stored and read back unchanged."""
    document = pipeline_document(load(COMPLETE), "bronze")
    assert json.loads(json.dumps(document)) == document
    assert fingerprint(json.loads(json.dumps(document))) == fingerprint(document)


def test_how_fast_a_pipeline_copies_is_left_out(load: Load) -> None:
    """Concurrency and Spark's settings do not change what is copied."""
    one = pipeline_document(load(COMPLETE), "bronze")
    text = '[spark]\nmaster = "yarn"\nconf = { a = 1 }\n' + COMPLETE + "concurrency = 9\n"
    assert pipeline_document(load(text), "bronze") == one


def test_two_ways_of_writing_the_same_give_the_same(load: Load) -> None:
    """Order of tables, units and defaults written out do not count."""
    text = PIPELINE + 'tables = ["customers", "orders"]\ncursor = ["updated_at"]\n'
    text += 'max_future_skew = 300\nstrategy = "incremental"\n'
    one, other = (pipeline_document(load(each), "bronze") for each in (COMPLETE, text))
    assert one == other
    assert fingerprint(one) == fingerprint(other)


def test_differences_name_every_key_that_moved(load: Load) -> None:
    """Each line says what was and what is."""
    old = pipeline_document(load(COMPLETE), "bronze")
    text = PIPELINE + 'tables = ["orders", "items", "taxes"]\ncursor = ["updated_at", "id"]\n'
    text += 'strategy = "merge"\nprimary_key = ["id"]\noverlap = "90m"\n'
    text += '[pipeline.bronze.table.orders]\nnull_watermark = "skip"\n'
    new = pipeline_document(load(text), "bronze")
    assert fingerprint(old) != fingerprint(new)
    assert sorted(differences(old, new)) == [
        'pipeline.bronze.cursor: was ["updated_at"], is ["updated_at", "id"]',
        'pipeline.bronze.overlap: was "0 seconds", is "1 hour 30 minutes"',
        'pipeline.bronze.primary_key: was not set, is ["id"]',
        'pipeline.bronze.strategy: was "incremental", is "merge"',
        'pipeline.bronze.table.orders.null_watermark: was not set, is "skip"',
        'pipeline.bronze.tables: added "items" and "taxes", removed "customers"',
    ]
    assert differences(new, new) == []


def test_switching_a_check_off_for_a_table_is_a_difference(load: Load) -> None:
    """`false` is not the same as nothing."""
    text = COMPLETE + "[pipeline.bronze.checks]\nfreshness = { threshold_seconds = 60 }\n"
    text += "[pipeline.bronze.table.orders]\n"
    old = pipeline_document(load(text), "bronze")
    new = pipeline_document(load(text + "checks = { freshness = false }\n"), "bronze")
    assert fingerprint(old) != fingerprint(new)


def test_secrets_are_told_apart_but_not_stored(load: Load) -> None:
    """A new password changes the fingerprint; neither password is anywhere."""
    old = pipeline_document(load(JDBC, {"P": "hunter2"}), "erp")
    new = pipeline_document(load(JDBC, {"P": "hunter3"}), "erp")
    assert "hunter" not in json.dumps([old, new])
    assert fingerprint(old) != fingerprint(new)
    assert differences(old, new) == [
        "pipeline.erp.source.options.password: changed (a secret, not shown)"
    ]
    assert '"me"' in json.dumps(old)


def test_secrets_inside_urls_are_not_stored(load: Load) -> None:
    """A URL that carries a password is hidden as a whole."""
    for url in ("jdbc:pg://me:hunter2@host/db", "jdbc:pg://host/db?user=me&password=hunter2"):
        document = pipeline_document(load(JDBC.replace("jdbc:x", url), {"P": "p"}), "erp")
        assert "hunter2" not in json.dumps(document)


def test_a_name_that_sounds_secret_hides_nothing_else(load: Load) -> None:
    """A table called tokens is not a token."""
    text = PIPELINE + TABLES.replace("orders", "tokens") + 'watermark = "ts"\n'
    text += '[pipeline.bronze.table.tokens]\nstrategy = "full_refresh"\n'
    assert '"full_refresh"' in json.dumps(pipeline_document(load(text), "bronze"))
