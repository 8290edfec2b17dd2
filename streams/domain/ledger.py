"""The ledger: which fact posts what. Double entries in integer minor units, made once, by the decision they leave with.

A correction is a new entry. Money that came late or twice is posted nowhere until two people decide; `suspense` is for that.

    fact                                              dr                  cr                  ref
    a payment or capture succeeds                     chan_recv:CHANNEL   order_clearing      its key
    a refund succeeds                                 order_clearing      chan_recv:CHANNEL   its key
    a refund, or a payment, comes back                the reverse of it                       its key and -return
    a dispute is opened, or lost unopened             dispute_loss        chan_recv:CHANNEL   the payment's key
    a dispute is won                                  chan_recv:CHANNEL   dispute_loss        the payment's key
    late money is taken in to be given back           chan_recv:CHANNEL   suspense            the payment's key and -late
    late or double money is fulfilled after all       chan_recv:CHANNEL   order_clearing      the payment's key and -late
    a refund that the channel made is booked          order_clearing      chan_recv:CHANNEL   the channel's reference
    a file states the fee of a transaction            fee_expense         chan_recv:CHANNEL   the operation's key
    a settlement file has a fee of its own            fee_expense         chan_recv:CHANNEL   batch:line
    a bank credit for a payout or an expected item    bank:ACCOUNT        chan_recv:CHANNEL   its reference
    a bank debit for what we pay                      payable             bank:ACCOUNT        its reference
    a bank names a charge                             fee_expense         bank:ACCOUNT        the reference and -charge
    a payout bounces at the bank                      chan_recv:CHANNEL   bank:ACCOUNT        the reference and -return

What a file states with the other sign is posted the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.domain.order import ChannelRefund, Operation, Payment
    from streams.domain.reports import Booking
    from streams.domain.turn import Turn

CLEARING: Final = "order_clearing"
LOSS: Final = "dispute_loss"
SUSPENSE: Final = "suspense"
FEES: Final = "fee_expense"
PAYABLE: Final = "payable"


def receivable(channel: str) -> str:
    return f"chan_recv:{channel}"


def bank(account: str) -> str:
    return f"bank:{account}"


def received(turn: Turn, payment: Payment, amount: int, ref: str) -> None:
    turn.post(receivable(payment.channel), CLEARING, amount, payment.currency, ref)


def given_back(turn: Turn, refund: Operation) -> None:
    source = SUSPENSE if refund.late else CLEARING
    turn.post(source, receivable(refund.channel), refund.amount, refund.currency, refund.key)


def refund_returned(turn: Turn, refund: Operation) -> None:
    source = SUSPENSE if refund.late else CLEARING
    turn.post(receivable(refund.channel), source, refund.amount, refund.currency, f"{refund.key}-return")


def payment_returned(turn: Turn, payment: Payment, amount: int) -> None:
    turn.post(CLEARING, receivable(payment.channel), amount, payment.currency, f"{payment.key}-return")


def dispute_taken(turn: Turn, payment: Payment, amount: int) -> None:
    turn.post(LOSS, receivable(payment.channel), amount, payment.currency, payment.key)


def dispute_won(turn: Turn, payment: Payment, amount: int) -> None:
    turn.post(receivable(payment.channel), LOSS, amount, payment.currency, payment.key)


def late_suspended(turn: Turn, payment: Payment, amount: int) -> None:
    turn.post(receivable(payment.channel), SUSPENSE, amount, payment.currency, f"{payment.key}-late")


def late_fulfilled(turn: Turn, payment: Payment, amount: int) -> None:
    turn.post(receivable(payment.channel), CLEARING, amount, payment.currency, f"{payment.key}-late")


def channel_refund_booked(turn: Turn, payment: Payment, refund: ChannelRefund) -> None:
    turn.post(CLEARING, receivable(payment.channel), refund.amount, payment.currency, refund.ref)


def booked(turn: Turn, event: Booking) -> None:
    """What a file proves, between the two accounts of its kind; the other way round where it is negative, and nothing where it is zero."""
    ours, theirs = receivable(event.channel), bank(event.account or "main")
    dr, cr = {
        "FEE": (FEES, ours),
        "FEE_ROW": (FEES, ours),
        "BANK": (theirs, ours),
        "OUT": (PAYABLE, theirs),
        "CHARGE": (FEES, theirs),
        "BOUNCE": (ours, theirs),
    }[event.status]
    if event.amount > 0:
        turn.post(dr, cr, event.amount, event.currency, event.ref)
    elif event.amount < 0:
        turn.post(cr, dr, -event.amount, event.currency, event.ref)
