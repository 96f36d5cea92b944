"""Messaging inside the database that an application already has."""

__version__ = "0.1.0"
