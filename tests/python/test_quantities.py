"""Do numbers read with the right unit and without losing their size?"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright.report import quantities as q


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (q.time(16.3), "16.30 s"),
        (q.time(0.0123), "12.30 ms"),
        (q.time(2821.7), "2,822 s"),
        (q.time(3 * 86400), "3.0 days"),
        (q.time(0.0), "0"),
        (q.time(1.7e-16), "0"),
        (q.time(5e-12), "0.005 ns"),
        (q.size(1.5 * 2**30), "1.50 GiB"),
        (q.size(512), "512 B"),
        (q.size(3576.28 * 2**30), "3.49 TiB"),
        (q.size_unit(3576.28 * 2**30)[0], "TiB"),
        (q.size_unit(80 * 2**30)[0], "GiB"),
        (q.size_unit(0.0)[0], "KiB"),
        (q.number(1, "batch"), "1 batch"),
        (q.number(2, "micro-batch"), "2 micro-batches"),
        (q.number(1024, "batch"), "1,024 batches"),
        (q.number(0, "size"), "0 sizes"),
        (q.gib(80 * 2**30), "80.00"),
        (q.energy(3.6e6 * 3.9), "3.90 kWh"),
        (q.energy(3.6e6 * 359_800), "359.80 MWh"),
        (q.dollars(2.787), "2.79 USD"),
        (q.dollars(254_805.2), "254,805 USD"),
        (q.dollars(0.0213), "0.0213 USD"),
        (q.dollars(None), "unknown (no price in the catalog)"),
        (q.count(174.6e9), "174.6B"),
        (q.share(0.6504), "65.0%"),
        (q.rate(312e12), "312.0 TFLOP/s"),
        (q.time(0.99999), "1.000 s"),
        (q.time(0.99999e-6), "1.000 us"),
        (q.time(999.96), "1,000 s"),
        (q.energy(313.0), "313 J"),
        (q.energy(3.6e6 * 99.96), "0.10 MWh"),
        (q.energy(3600.0), "0.00100 kWh"),
        (q.dollars(9.83e-5), "0.0000983 USD"),
        (q.dollars(0.99999), "1 USD"),
        (q.figures(47_520.4, 4), "47,520"),
        (q.figures(14_354.0, 4), "14,354"),
        (q.figures(0.5, 4), "0.5"),
        (q.figures(0.0, 4), "0"),
        (q.figures(math.inf, 4), "inf"),
    ],
)
def test_quantities_read_as_expected(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.floats(1e-9, 1e15), st.integers(2, 6), st.booleans())
def test_a_number_is_written_out_and_right_to_its_figures(
    number: float, digits: int, padded: bool
) -> None:
    written = q.figures(number, digits, padded=padded)
    assert "e" not in written
    read = float(written.replace(",", ""))
    assert math.isclose(read, number, rel_tol=0.5 * 10.0 ** (1 - digits) * (1 + 1e-9))
    assert padded or "." not in written or written[-1] != "0"


@given(st.floats(1e-7, 1e8))
def test_times_energies_and_prices_are_never_powers_of_ten(value: float) -> None:
    shown = (q.time(value), q.energy(value * 3.6e6), q.dollars(value), q.count(value))
    assert not any("e+" in text or "e-" in text or ". " in text for text in shown)
