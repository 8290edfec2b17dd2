"""A short run of the fuzzer over every channel; `python -m tests.fuzz.run` is the long one."""

from __future__ import annotations

import pytest

from streams.channels.registry import CHANNELS
from tests.fuzz.run import attack, judged, target


@pytest.mark.parametrize("channel", CHANNELS)
def test_hostile_notices_are_accepted_or_refused_by_name(channel: str):
    outcomes = attack(channel, 500, seed=7)
    assert outcomes.total() == 500
    assert len(outcomes) > 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_notices_that_are_damaged_were_genuine_before(channel: str):
    attacked = target(channel)
    assert {judged(attacked, seed).partition(",")[0] for seed in attacked.seeds} == {"accepted"}


def test_a_hostile_content_under_a_genuine_seal_reaches_the_mapping():
    """Without a seal made again every damage of it ends at the seal, and the mapping is never tried."""
    outcomes = attack("wechatpay", 500, seed=7)
    assert outcomes["accepted, unmapped"] > 50
    assert outcomes["accepted, mapped"] > 50
