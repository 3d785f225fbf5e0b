"""Logs a machine can read and a person too: `time level logger message key=value …`, or JSON."""

from __future__ import annotations

import json
import logging
import os

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


class PlainFormatter(logging.Formatter):
    """One line: what happened, then what is known about it."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name} "
        line += record.getMessage().replace("\n", " ")
        for name, value in _extra(record).items():
            line += f" {name}={value!s}"
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: str(value) for name, value in _extra(record).items()}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def setup_logging() -> None:
    """Send our logs to standard error, as `AXON_LOG` says: `plain` (default), `json` or `off`.

    A program that configured logging itself, ours or the root's, is left alone.
    """
    logger = logging.getLogger("axon")
    form = os.environ.get("AXON_LOG", "plain")
    if form == "off" or logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else PlainFormatter())
    logger.addHandler(handler)
    logger.setLevel(os.environ.get("AXON_LOG_LEVEL", "INFO").upper())
