"""One seeded fault run of the projector; `python -m tests.faults.projector` runs twenty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults import projector
from tests.support import services

if TYPE_CHECKING:
    from streams.dev.services import Kafka

SEED = 3


@pytest.mark.kafka
@pytest.mark.postgres
async def test_no_crash_of_projector_or_postgres_makes_the_books_differ(kafka: Kafka):
    found, told = await projector.run(SEED, kafka.bootstrap, services.fresh_folder("projector"))
    assert found == [], f"seed {SEED}: {told}; again: python -m tests.faults.projector --seeds {SEED}"
