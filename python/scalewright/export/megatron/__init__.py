"""How do plans become Megatron-LM arguments, and Megatron-LM arguments plans?"""

from scalewright.export.megatron.reading import read_megatron
from scalewright.export.megatron.writing import script

__all__ = ["read_megatron", "script"]
