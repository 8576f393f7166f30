"""What can be made of a race's report: a page to look at and keep, and the race again with other delays. Pure.

A page is one HTML file without scripts that needs no network and holds the report itself. A replay steps the schedule that
runs real races over what the network gave, and says what cannot be known from one race.
"""

from __future__ import annotations

from racer.report._changes import Changes
from racer.report._figure import figure
from racer.report._markup import document
from racer.report._page import page
from racer.report._replay import Doubt, Replay, compare, replay

__all__ = ("Changes", "Doubt", "Replay", "compare", "document", "figure", "page", "replay")
