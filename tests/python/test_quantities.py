"""Do numbers read with the right unit and without losing their size?"""

import pytest

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
    ],
)
def test_quantities_read_as_expected(shown: str, expected: str) -> None:
    assert shown == expected
