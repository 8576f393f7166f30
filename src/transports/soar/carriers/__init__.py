"""What takes a question to a resolver and brings the answer: UDP, TCP, DoT and DoH (SPEC 1)."""

from __future__ import annotations

__all__ = ()
