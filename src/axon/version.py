"""The version, in the one place that packaging, profiles and announcements read it from."""

__version__ = "0.1.0"
