"""One resubmit gate: whatever people click and channels lose, no order is charged twice (R-050, R-157, R-248).

The model channel charges whatever submit reaches it, at once and for good, unless it refuses it; its answer may get lost or be late. So a
second submit that it accepts is a second charge. The same interleavings must catch the obvious loop that tries the next channel on any
exception.
"""

from __future__ import annotations

from hypothesis import find, given, settings
from hypothesis import strategies as st

from tests.support.model_channels import Cashier, charges

STEPS = ("charge", "charge", "charge, answer lost", "refuse", "refuse, answer lost", "deliver", "query", "fall back", "fall back", "click",
         "second payment", "wait", "wait long", "give up")  # fmt: skip
Steps = st.lists(st.sampled_from(STEPS), min_size=2, max_size=12)


class Loop(Cashier):
    """The mutant: on any exception try the next channel."""

    def answer(self, payment: str, channel: str, status: str, request: str = "submit") -> None:
        super().answer(payment, channel, status, request)
        if request == "submit" and status != "ACCEPTED":
            self.channels.inbox.append((payment, "chB" if channel == "chA" else "chA", f"key-{self.clicks}", 2**60))


@given(Steps)
@settings(max_examples=settings.default.max_examples * 3)
def test_no_interleaving_charges_an_order_twice(steps: list[str]):
    assert charges(Cashier(), steps) <= 1


def test_the_obvious_loop_is_caught():
    steps = find(Steps, lambda steps: charges(Loop(), steps) > 1)
    assert charges(Cashier(), steps) <= 1


def test_a_fallback_is_possible_at_all():
    """The gate is no wall: a refused first attempt leads to the other channel, and to one charge."""
    cashier = Cashier()
    cashier.step("refuse")
    assert charges(cashier, ["wait", "fall back", "fall back"]) == 1
    assert {channel for _, channel, _ in cashier.channels.charged} == {"chB"}
