"""Replication, shown through the public surface and read through a back door."""
