"""The payment machine once more, written apart and plainly: what a careful clerk would do with a pile of words, one after the other.

It knows no turns, no tables and no messages; it reads the requirements and keeps a handful of variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clerk:
    """One started payment of 1000 USD."""

    state: str = "PAYING"
    transaction: str | None = None
    heard: dict[str, tuple[str, ...]] = field(default_factory=dict)
    successes: set[str] = field(default_factory=set)
    failures: set[str] = field(default_factory=set)

    def callback(self, event: str, word: str, transaction: str, amount: int, currency: str) -> None:
        payload = (word, transaction, str(amount), currency)
        if event in self.heard:
            return  # the first stands, whatever the second says
        self.heard[event] = payload
        self.word(word, transaction, amount, currency, name=event)

    def answer(self, word: str, transaction: str | None, amount: int | None, currency: str | None) -> None:
        self.word(word, transaction, amount, currency, name=f"answer {word}")

    def word(self, word: str, transaction: str | None, amount: int | None, currency: str | None, *, name: str) -> None:
        if word == "SUCCESS":
            self.success(transaction, amount, currency)
        elif word in {"FAILED", "DECLINED_RETRYABLE"}:
            self.end("FAIL", name)
        elif word == "CLOSED":
            self.end("CLOSED", name)
        elif word not in {"PENDING", "ACCEPTED", "ALREADY_PAID"}:
            self.doubt()

    def success(self, transaction: str | None, amount: int | None, currency: str | None) -> None:
        if (amount is not None and amount != 1000) or (currency is not None and currency != "USD"):
            return  # not ours
        if transaction is None or amount is None or currency is None:
            self.doubt()  # proves nothing yet
            return
        self.successes.add(transaction)
        if self.state in {"PAYING", "UNKNOWN"}:
            self.state, self.transaction = "SUCCESS", transaction

    def end(self, state: str, name: str) -> None:
        self.failures.add(name)
        if self.state in {"PAYING", "UNKNOWN"}:
            self.state = state

    def doubt(self) -> None:
        if self.state == "PAYING":
            self.state = "UNKNOWN"

    @property
    def contradicted(self) -> bool:
        """Whether a person must be told that successes and failures disagree."""
        return bool(self.successes and self.failures)
