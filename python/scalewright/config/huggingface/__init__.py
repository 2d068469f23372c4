"""Which transformer does a Hugging Face `config.json` describe?"""

from scalewright.config.huggingface.reading import FAMILIES, parts_left_out, read_config

__all__ = ["FAMILIES", "parts_left_out", "read_config"]
