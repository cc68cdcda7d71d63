"""Streams: deliver every micro-batch to its sinks, then commit one checkpoint."""
