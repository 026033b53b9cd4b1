"""Connections that end at any byte of a call."""
