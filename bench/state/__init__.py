"""Benchmarks of the keyed-state engine: ratios measured in one run, on the same data."""
