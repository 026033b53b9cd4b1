"""Profiles: what a worker may do, and what is asked or refused. TOML in, frozen values out."""

from stockade_daemon.profiles.read import available, load, own_text, parse, restore, shipped

__all__ = ["available", "load", "own_text", "parse", "restore", "shipped"]
