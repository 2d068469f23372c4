"""Which constants of fabrics and devices do a user's own measurements give?"""

from scalewright.calibration.calibrating import Calibration, calibrate
from scalewright.calibration.files import read_files
from scalewright.calibration.measured import Measured
from scalewright.calibration.products import ProductCalibration, calibrate_products
from scalewright.calibration.timed_files import timed_products

__all__ = [
    "Calibration",
    "Measured",
    "ProductCalibration",
    "calibrate",
    "calibrate_products",
    "read_files",
    "timed_products",
]
