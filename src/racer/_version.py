"""The version, in one place; a test holds it against the package's metadata."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
