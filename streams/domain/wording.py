"""What a person is told about a refund: a total function of its layers, in Chinese and English.

A layer that nobody has reported is said to be unknown, and no layer speaks for another (R-210, R-232). The money is said to be on
the card only when the card shows it, and the success mark lights in the one combination in which all layers are closed (R-233).
The release of a hold is told apart from a refund, because no refund entry will ever come of it (R-212).
"""
# ruff: noqa: RUF001  Chinese sentences have Chinese punctuation

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from streams.domain.moment import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.layers import Layers, Owner

Language: TypeAlias = Literal["zh", "en"]
CARD_NUMBER: Final = re.compile(r"[0-9](?:[ -]?[0-9]){11,}")
"""Twelve digits or more in a row, as card numbers are written; a masked number has fewer (R-216)."""


class Said(NamedTuple):
    """One sentence in both languages."""

    zh: str
    en: str

    def text(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en


class Progress(NamedTuple):
    """The progress page of one refund (R-231). `case` names the headline; `answers` are for the support desk."""

    case: str
    mark: bool
    headline: str
    merchant: str
    processor: str
    card: str
    wallet: str
    checked: str
    owner: str
    answers: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything the person reads, from top to bottom."""
        lines = (self.headline, self.merchant, self.processor, self.card, self.wallet, self.checked, self.owner)
        return tuple(line for line in lines if line)


HEADLINES: Final[Mapping[str, Said]] = {
    "nothing": Said("尚未查到任何退款信息。", "No information about a refund has been found yet."),
    "submitted": Said(
        "收款方显示已发起退款，当前尚未在资金网络中收到入账记录",
        "The payee shows a refund was initiated; no posting has yet been received from the funds network.",
    ),
    "processing": Said(
        "收款方正在处理退款，当前尚未在资金网络中收到入账记录。",
        "The payee is working on the refund; no posting has yet been received from the funds network.",
    ),
    "issued": Said(
        "收款方显示退款已发出，卡侧尚未查到入账记录。",
        "The payee shows the refund as issued; no posting has been found on the card yet.",
    ),
    "chain-only": Said(
        "资金处理方已有该笔退款的记录，收款方进度未知，卡侧尚未查到入账记录。",
        "The processing chain has a record of the refund; the payee's progress is not known and the card shows no posting.",
    ),
    "card-pending": Said(
        "卡侧显示一笔待入账的退款，尚未入账。", "The card shows a pending refund entry; it has not been posted."
    ),
    "card-pending-only": Said(
        "卡侧显示一笔待入账的退款，尚未入账；收款方进度未知。",
        "The card shows a pending refund entry that has not been posted; the payee's progress is not known.",
    ),
    "rejected": Said("收款方拒绝了该笔退款。", "The payee refused the refund."),
    "chain-failed": Said(
        "资金处理方确认该笔退款未成功，需收款方继续处理。",
        "The processing chain confirmed that the refund did not go through; the payee has to continue.",
    ),
    "chain-reversed": Said(
        "资金处理方已撤回该笔退款，需收款方继续处理。",
        "The processing chain took the refund back; the payee has to continue.",
    ),
    "contested": Said(
        "各方关于该笔退款的说法不一致，我们正在核实。",
        "The parties disagree about this refund; we are checking.",
    ),
    "card-returned": Said(
        "卡侧的退款入账已被撤销，需收款方继续处理。",
        "The refund entry on the card was taken back by the card side; the payee has to continue.",
    ),
    "posted-payee-unknown": Said(
        "卡侧已有退款入账记录；收款方进度未知。", "The card shows a posted refund entry; the payee's progress is not known."
    ),
    "posted-payee-open": Said(
        "卡侧已有退款入账记录；收款方尚未完结。", "The card shows a posted refund entry; the payee has not closed the refund yet."
    ),
    "posted-chain-open": Said(
        "款项已退回到卡；资金处理方尚未完结。",
        "The money is back on the card; the processing chain has not closed the refund yet.",
    ),
    "posted-balance-open": Said(
        "款项已退回到卡；尚未确认转入钱包余额。",
        "The money is back on the card; its transfer to the wallet balance is not confirmed yet.",
    ),
    "closed": Said("退款已完成：款项已退回到卡，余额已更新。", "Refund complete: the money is back on the card and in the balance."),
    "release-open": Said(
        "该笔款项只是预授权冻结，并未扣款；正在解除冻结，不会出现退款入账。",
        "This amount was only held and never charged; the hold is being released, so no refund entry will appear.",
    ),
    "release-told": Said(
        "对方显示冻结已解除；该笔款项从未扣款，不会出现退款入账，可用额度以发卡方显示为准。",
        "The hold is reported as released. Nothing was charged, so no refund entry will appear; the card issuer shows what is available.",
    ),
    "release-refused": Said(
        "解除冻结未获确认；该笔款项只是预授权冻结，并未扣款。",
        "The release of the hold was not confirmed; this amount was only held and never charged.",
    ),
    "release-contested": Said(
        "该笔款项应只是预授权冻结，但卡侧显示有入账记录，我们正在核实。",
        "This amount should only have been held, but the card shows an entry; we are checking.",
    ),
}  # fmt: skip

MERCHANT: Final[Mapping[str | None, Said]] = {
    None: Said("收款方：进度未知", "Payee: progress not known"),
    "SUBMITTED": Said("收款方：已发起", "Payee: initiated"),
    "PROCESSING": Said("收款方：处理中", "Payee: processing"),
    "COMPLETED": Said("收款方：已发出", "Payee: issued"),
    "REJECTED": Said("收款方：已拒绝", "Payee: refused"),
}
PROCESSOR: Final[Mapping[str | None, Said]] = {
    None: Said("资金处理方：无记录", "Processing chain: no record"),
    "RECEIVED": Said("资金处理方：已接收", "Processing chain: received"),
    "APPROVED": Said("资金处理方：已批准", "Processing chain: approved"),
    "SETTLED": Said("资金处理方：已结算", "Processing chain: settled"),
    "FAILED": Said("资金处理方：未成功", "Processing chain: did not go through"),
    "REVERSED": Said("资金处理方：已撤回", "Processing chain: taken back"),
}
CARD: Final[Mapping[str | None, Said]] = {
    None: Said("卡侧：未查到入账记录", "Card: no posting found"),
    "PENDING": Said("卡侧：待入账", "Card: pending, not posted"),
    "POSTED": Said("卡侧：已入账", "Card: posted"),
    "RETURNED": Said("卡侧：入账已撤销", "Card: entry taken back"),
}
WALLET: Final[Mapping[str | None, Said]] = {
    None: Said("钱包余额：未查到转入记录", "Wallet balance: no transfer found"),
    "PENDING": Said("钱包余额：转入处理中", "Wallet balance: transfer pending"),
    "CREDITED": Said("钱包余额：已更新", "Wallet balance: up to date"),
}
OWNERS: Final[Mapping[str, Said]] = {
    "MERCHANT": Said("下一步由收款方处理", "Next: the payee has to continue"),
    "PROCESSOR": Said("下一步由资金处理方处理", "Next: the processing chain has to continue"),
    "ISSUER": Said("下一步由发卡方处理", "Next: the card issuer has to continue"),
    "WALLET": Said("下一步由钱包方处理", "Next: the wallet operator has to continue"),
    "US": Said("下一步由我们核实", "Next: we have to check"),
    "NOBODY": Said("", ""),
}
ANSWERS: Final[Mapping[str, Said]] = {
    "issued-no-entry": Said(
        "收款方称已退款而卡侧无入账：核对资金处理链路，以及现有的关联号。",
        "The payee says issued, the card has no entry: check the processing chain and the references there are.",
    ),
    "balance-unchanged": Said(
        "卡侧已有入账而总余额未变：分别核对卡余额与钱包余额，并查内部划转记录。",
        "The card has the entry, the total is unchanged: compare card and wallet balance, and look at the internal transfer.",
    ),
    "only-a-hold": Said(
        "只有预授权冻结、消费未结算：核对预授权解除，不要走退款流程。",
        "There is only a hold and the purchase never settled: check the release of the authorisation, not the refund flow.",
    ),
}
"""The runbook (R-221)."""


def progress(layers: Layers, checked_at: int | None, owner: Owner, language: Language) -> Progress:
    """What is said of these layers. `checked_at` is the last check in milliseconds of UTC, None if there was none."""
    case = case_of(layers)
    return Progress(
        case=case,
        mark=layers.closed,
        headline=HEADLINES[case].text(language),
        merchant=MERCHANT[layers.merchant].text(language),
        processor=PROCESSOR[layers.processor].text(language),
        card=CARD[layers.card].text(language),
        wallet=WALLET[layers.wallet].text(language),
        checked=checked(checked_at).text(language),
        owner=OWNERS[owner].text(language),
        answers=tuple(ANSWERS[answer].text(language) for answer in answers_of(layers)),
    )


def case_of(layers: Layers) -> str:
    """The headline's case; the card's own words outrank what others say about the card."""
    if layers.release:
        return _case_of_release(layers)
    if layers.card in {"POSTED", "RETURNED"}:
        return _case_of_entry(layers)
    if layers.refused:
        return _case_of_refused(layers)
    if layers.card == "PENDING":
        return "card-pending-only" if layers.merchant is None and layers.processor is None else "card-pending"
    if layers.merchant is None:
        return "nothing" if layers.processor is None else "chain-only"
    return {"SUBMITTED": "submitted", "PROCESSING": "processing", "COMPLETED": "issued"}[layers.merchant]


def _case_of_release(layers: Layers) -> str:
    if layers.card in {"POSTED", "RETURNED"}:
        return "release-contested"
    if layers.refused:
        return "release-refused"
    return "release-told" if layers.merchant == "COMPLETED" or layers.processor == "SETTLED" else "release-open"


def _case_of_entry(layers: Layers) -> str:
    if layers.card == "RETURNED":
        return "card-returned"
    if layers.refused:
        return "contested"
    if layers.merchant is None:
        return "posted-payee-unknown"
    if layers.merchant != "COMPLETED":
        return "posted-payee-open"
    if layers.processor != "SETTLED":
        return "posted-chain-open"
    return "closed" if layers.closed else "posted-balance-open"


def _case_of_refused(layers: Layers) -> str:
    """A no that another layer denies is a question, not an answer."""
    if layers.card == "PENDING" or layers.processor in {"RECEIVED", "APPROVED", "SETTLED"}:
        return "contested"
    if layers.merchant == "REJECTED":
        return "rejected"
    return "chain-failed" if layers.processor == "FAILED" else "chain-reversed"


WHO: Final[Mapping[str, Owner]] = {
    "card-pending": "ISSUER",
    "card-pending-only": "ISSUER",
    "rejected": "MERCHANT",
    "chain-failed": "MERCHANT",
    "chain-reversed": "MERCHANT",
    "contested": "US",
    "card-returned": "MERCHANT",
    "posted-payee-unknown": "MERCHANT",
    "posted-payee-open": "MERCHANT",
    "posted-chain-open": "PROCESSOR",
    "posted-balance-open": "WALLET",
    "closed": "NOBODY",
    "release-open": "MERCHANT",
    "release-told": "ISSUER",
    "release-refused": "MERCHANT",
    "release-contested": "US",
}
"""case -> who continues, where the case alone says it."""


def next_owner(layers: Layers) -> Owner:
    """Who must continue (R-231)."""
    case = case_of(layers)
    if case in WHO:
        return WHO[case]
    if (
        layers.processor is None
    ):  # before the chain has it, the payee hands it over; once issued, the chain must find it
        return "PROCESSOR" if case == "issued" else "MERCHANT"
    return "ISSUER" if layers.processor == "SETTLED" else "PROCESSOR"


def answers_of(layers: Layers) -> tuple[str, ...]:
    """The runbook's entries that apply (R-221)."""
    if layers.release:
        return ("only-a-hold",)
    if layers.merchant == "COMPLETED" and layers.card is None:
        return ("issued-no-entry",)
    if layers.card == "POSTED" and layers.wallet != "CREDITED":
        return ("balance-unchanged",)
    return ()


def checked(at: int | None) -> Said:
    """When somebody last looked, to the minute in UTC."""
    if at is None:
        return Said("最近核对：尚未核对", "Last check: none yet")
    when = moment(at).strftime("%Y-%m-%d %H:%M UTC")
    return Said(f"最近核对：{when}", f"Last check: {when}")


def origin(channel: str, card: str) -> Said:
    """Where the payment came from: channel, and card by reference or masked. Refuses what reads like a card number (R-216)."""
    if CARD_NUMBER.search(card):
        raise ValueError("card: it holds a whole card number; pass an internal reference or the masked number")
    return Said(f"原支付渠道：{channel}，卡：{card}", f"Paid through {channel}, card {card}")
