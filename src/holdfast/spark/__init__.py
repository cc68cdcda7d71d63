"""Everything that touches Spark: finding Java, starting sessions, reading and writing data.

This is the only package that imports pyspark, so that commands which need no Spark start fast.
"""
