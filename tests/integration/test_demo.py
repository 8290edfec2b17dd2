"""The demonstration itself: a crash in the middle of real traffic, and a proof that finds nothing wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.kafka


def test_the_demonstration_survives_its_crash_and_proves_it(kafka, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "streams", "demo", "--orders", "400", "--rate", "600", "--seed", "3"],
        env={**os.environ, "CONCORD_KAFKA": kafka.bootstrap, "COLUMNS": "160", "PYTHONPATH": os.getcwd()},  # noqa: PTH109  as a user's shell
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "SIGKILL worker-1" in ran.stdout
    assert "both workers drained, exit codes [0, 0]" in ran.stdout
    assert len(re.findall("✔", ran.stdout)) == 3
    assert "✘" not in ran.stdout
    assert "concord explain ORD-000042" in ran.stdout
    assert (tmp_path / ".concord" / "demo" / "worker-1.log").exists()
