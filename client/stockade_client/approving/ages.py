"""How long something has waited, and how much time is left, in few characters."""

from datetime import UTC, datetime


def span(milliseconds: float) -> str:
    """A duration by its two largest units: 7 s, 4 min 05 s, 3 h 20 min, 2 d 4 h. What is negative is 0 s."""
    seconds = max(0, int(milliseconds // 1000))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    if minutes:
        return f"{minutes} min {seconds % 60:02} s"
    return f"{seconds} s"


def clock(milliseconds: int) -> str:
    """A point in time, milliseconds since 1970, as a UTC time of day."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%H:%M:%SZ")


def validity(expires_ms: int, now_ms: float) -> str:
    """Until when an ask can be answered; 0 never ends while somebody is there to answer."""
    if not expires_ms:
        return "valid while an approver is here"
    return f"valid until {clock(expires_ms)}, {span(expires_ms - now_ms)} left"
