"""Soar: byte streams inside DNS questions and answers, the last resort of a race (docs/soar-spec.md)."""

from __future__ import annotations

__all__ = ()
