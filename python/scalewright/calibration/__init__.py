"""Which constants of fabrics and devices do a user's own measurements give?"""

from scalewright.calibration.calibrating import Calibration, calibrate
from scalewright.calibration.files import read_files
from scalewright.calibration.kernels import KernelCalibration
from scalewright.calibration.left_out import grouped
from scalewright.calibration.measured import Measured, SkippedLine
from scalewright.calibration.products import calibrate_products
from scalewright.calibration.serving import calibrate_serving
from scalewright.calibration.step_rows import StepRun, timed_steps
from scalewright.calibration.steps import StepCalibration, calibrate_steps, step_entries
from scalewright.calibration.timed_files import timed_kernels

__all__ = [
    "Calibration",
    "KernelCalibration",
    "Measured",
    "SkippedLine",
    "StepCalibration",
    "StepRun",
    "calibrate",
    "calibrate_products",
    "calibrate_serving",
    "calibrate_steps",
    "grouped",
    "read_files",
    "step_entries",
    "timed_kernels",
    "timed_steps",
]
