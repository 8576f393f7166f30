"""The public door to the race's brain, for transports that race addresses, resolvers or strategies of their own."""

from __future__ import annotations

from racer._schedule import Lane, LaneState, Schedule

__all__ = ("Lane", "LaneState", "Schedule")
