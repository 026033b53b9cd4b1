"""The tools as data: manifests, catalog, and arguments that fit them."""

from stockade_daemon.registry.freezing import freeze, thaw
from stockade_daemon.registry.registry import Registry

__all__ = ["Registry", "freeze", "thaw"]
