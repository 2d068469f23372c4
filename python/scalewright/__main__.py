"""What `python -m scalewright` runs."""

import sys

from scalewright.cli import main

sys.exit(main())
