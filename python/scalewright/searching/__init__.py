"""Searches that may be long, be killed, or be spread over machines."""

from scalewright.searching.finding import Means, find
from scalewright.searching.question import Question

__all__ = ["Means", "Question", "find"]
