"""Which transformer does a Hugging Face `config.json` describe?"""

from scalewright.config.huggingface.reading import FAMILIES, read_config

__all__ = ["FAMILIES", "read_config"]
