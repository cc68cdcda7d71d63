"""Micro-batches: reading a stream, Spark's own checkpoint directory, running a query."""
