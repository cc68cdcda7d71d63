"""Sinks: where the batches of a stream are delivered."""
