"""What a worker writes where its program has not set up logging: to standard error, as TENURE_LOG says."""

from __future__ import annotations

import logging
import os

from .errors import Setup

FORMAT = "%(levelname)s %(name)s: %(message)s"
_OFF = logging.CRITICAL + 10
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": _OFF,
}


def asked_level() -> int:
    """What TENURE_LOG says; INFO when it is absent."""
    word = os.environ.get("TENURE_LOG") or "info"
    level = _LEVELS.get(word.lower())
    if level is None:
        raise Setup(
            f"TENURE_LOG is `{word}`", next_step="set it to debug, info, warn, error or off", field="TENURE_LOG"
        )
    return level


def show_logs() -> None:
    """Shows what the logger `tenure` says, unless the program has decided about that itself."""
    logger = logging.getLogger("tenure")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(asked_level())
