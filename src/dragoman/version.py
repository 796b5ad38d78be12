"""The version of Dragoman, which every bundle and report records."""

__version__ = "0.2.0"
