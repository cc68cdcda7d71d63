"""The version of Holdfast, read by the build and by `holdfast --version`."""

__version__ = "0.1.0"
