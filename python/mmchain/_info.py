"""What there is on this machine, and what is kept."""

from __future__ import annotations

from typing import Any, Dict

from . import _mmchain
from ._structure import forget_plans


def info() -> Dict[str, Any]:
    """The library's version, the devices with what is missing where one is, and the cache of plans.

    >>> sorted(mmchain.info())
    ['cache', 'devices', 'version']
    >>> [d["name"] for d in mmchain.info()["devices"] if d["name"] == "ref"]
    ['ref']
    """
    devices = [
        {"name": name, "description": description, "available": available}
        for name, description, available in _mmchain.devices()
    ]
    return {"version": _mmchain.version, "devices": devices, "cache": _mmchain.cache_info()}


def clear_cache() -> None:
    """Forgets the plans that `multi_dot` made, and frees their workspace.

    >>> mmchain.clear_cache()
    >>> mmchain.info()["cache"]
    {'plans': 0, 'workspace_bytes': 0}
    """
    _mmchain.clear_cache()
    forget_plans()
