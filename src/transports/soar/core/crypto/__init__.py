"""Soar's keys, handshake, sealed packets, and the proofs that a session has ended."""

from __future__ import annotations

__all__ = ()
