"""Which constants of a fabric do measured collectives give?"""

from scalewright.calibration.calibrating import Calibration, calibrate
from scalewright.calibration.files import read_files
from scalewright.calibration.measured import Measured

__all__ = ["Calibration", "Measured", "calibrate", "read_files"]
