"""How Slurm writes a length of time: ``90`` (minutes), ``24:00:00``, ``1-12``, ``UNLIMITED``."""

from __future__ import annotations

import re
from typing import Optional

from slurmswift.domain.schema import UnreadableError

UNLIMITED = None
_FORMS = (
    "minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], UNLIMITED"
)
_SLURM = re.compile(r"(?:(\d+)-(\d+)(?::(\d+))?(?::(\d+))?|(\d+)(?::(\d+))?(?::(\d+))?)")
_DAY = 86400
_MAX_SECONDS = 3650 * _DAY
# What people write instead: 25h, 1d12h, "2 days", 90min, 1w.
_UNITS = {"w": 7 * _DAY, "d": _DAY, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\s*,?",
    re.IGNORECASE,
)
_ODD_PARTS = 60  # minutes and seconds that Slurm would add up silently


def parse_slurm_time(text: str) -> Optional[int]:
    """Return a time limit's seconds, None for UNLIMITED; UnreadableError says what to write."""
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return UNLIMITED
    match = _SLURM.fullmatch(text) if text.isascii() else None
    if match is None:
        meant = _seconds_meant(text)
        raise UnreadableError(
            f"'{text}' is not a Slurm time",
            f"write it as {format_slurm_time(meant)}" if meant else f"write one of: {_FORMS}",
        )
    seconds = _seconds(match)
    if seconds == 0:
        raise UnreadableError(
            f"'{text}' is no time at all (Slurm would take it for no limit)", "write UNLIMITED"
        )
    if seconds > _MAX_SECONDS:
        raise UnreadableError(f"'{text}' is more than ten years", "write UNLIMITED")
    if _has_odd_parts(match):
        raise UnreadableError(
            f"'{text}' has more than 59 minutes or seconds, or more than 23 hours after the days",
            f"write it as {format_slurm_time(seconds)}",
        )
    return seconds


def format_slurm_time(seconds: Optional[int]) -> str:
    """Return a time as Slurm's own commands print it: ``[D-]HH:MM:SS``."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, _DAY)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def likely_mistake(text: str) -> str:
    """Return a warning about a time that Slurm reads otherwise than most people, or nothing.

    ``24:00`` is 24 minutes.
    """
    if re.fullmatch(r"\d{1,3}:\d\d", text):
        return f"'{text}' is {text.partition(':')[0]} minutes for Slurm; for hours write {text}:00"
    return ""


def _seconds(match: re.Match[str]) -> int:
    days, hours, minutes, seconds, first, second, third = (
        int(part) if part is not None else None for part in match.groups()
    )
    if days is not None:
        return days * _DAY + (hours or 0) * 3600 + (minutes or 0) * 60 + (seconds or 0)
    if third is not None:
        return (first or 0) * 3600 + (second or 0) * 60 + third
    return (first or 0) * 60 + (second or 0)


def _has_odd_parts(match: re.Match[str]) -> bool:
    days, hours, minutes, seconds, _, second, third = match.groups()
    clock = [minutes, seconds] if days is not None else [second, third]
    too_many_hours = days is not None and int(hours) > 23  # noqa: PLR2004 - hours of a day
    return too_many_hours or any(part is not None and int(part) >= _ODD_PARTS for part in clock)


def _seconds_meant(text: str) -> int:
    """Return the seconds that a person probably meant; 0 where that is anyone's guess."""
    position, total = 0, 0.0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return 0
        total += float(part.group(1)) * _UNITS[part.group(2)[0].lower()]
        position = part.end()
    return round(total) if total <= _MAX_SECONDS else 0
