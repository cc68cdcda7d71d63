"""Benchmarks: each compares in one run, on the same data, and prints ratios."""
