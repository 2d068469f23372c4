"""How does a person read an answer: tables on a terminal, plain text in a pipe?"""

from scalewright.report.calibration import show_calibration
from scalewright.report.catalog import show_entry, show_names
from scalewright.report.codesign import show_codesign
from scalewright.report.collective import show_collective
from scalewright.report.comparison import show_comparison
from scalewright.report.controller import show_controllers
from scalewright.report.estimate import show_estimate, show_explanation
from scalewright.report.job import show_overridden
from scalewright.report.kernel_calibration import show_kernel_calibration
from scalewright.report.offload import show_largest, show_offload
from scalewright.report.placement import show_placement
from scalewright.report.rematerialise import show_rematerialisation
from scalewright.report.robustness import show_robust, show_sensitivity
from scalewright.report.schedule import show_rules, show_schedules
from scalewright.report.screen import console
from scalewright.report.search import goes_on, show_search
from scalewright.report.serving import show_serving
from scalewright.report.step import show_simulated_step
from scalewright.report.step_calibration import show_step_calibration
from scalewright.report.unlike import show_unlike
from scalewright.report.why_not import show_why_not

__all__ = [
    "console",
    "goes_on",
    "show_calibration",
    "show_codesign",
    "show_collective",
    "show_comparison",
    "show_controllers",
    "show_entry",
    "show_estimate",
    "show_explanation",
    "show_kernel_calibration",
    "show_largest",
    "show_names",
    "show_offload",
    "show_overridden",
    "show_placement",
    "show_rematerialisation",
    "show_robust",
    "show_rules",
    "show_schedules",
    "show_search",
    "show_sensitivity",
    "show_serving",
    "show_simulated_step",
    "show_step_calibration",
    "show_unlike",
    "show_why_not",
]
