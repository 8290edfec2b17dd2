"""The short fault suite, as CI runs it: two seeded runs of real workers under real faults."""

from __future__ import annotations

import pytest

from tests.faults import run


@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_two_seeded_fault_runs_violate_nothing(capfd: pytest.CaptureFixture[str]):
    status = run.suite(run.parse(["--short"]))

    assert status == 0, capfd.readouterr().out
