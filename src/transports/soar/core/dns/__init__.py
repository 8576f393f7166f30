"""Soar's corner of the DNS: names that carry octets, questions, answers, and what an authority owes everybody else."""

from __future__ import annotations

__all__ = ()
