"""Searches that may be long, be killed, or be spread over machines."""

from scalewright.searching.question import Question
from scalewright.searching.run_search import SearchExecution, find

__all__ = ["Question", "SearchExecution", "find"]
