"""The layers of a refund: what the payee, the processing chain and the card each show of it, and the leg from card to wallet.

They are views of others, kept beside the refund's own state. None implies another (R-210): a payee that is done has put nothing on
a card. None of them is a `refunded: true` (R-224). None of a value is no news, not a no.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

Merchant: TypeAlias = Literal["SUBMITTED", "PROCESSING", "COMPLETED", "REJECTED"]
Processor: TypeAlias = Literal["RECEIVED", "APPROVED", "SETTLED", "FAILED", "REVERSED"]
Card: TypeAlias = Literal["PENDING", "POSTED", "RETURNED"]
Wallet: TypeAlias = Literal["PENDING", "CREDITED"]
Owner: TypeAlias = Literal["MERCHANT", "PROCESSOR", "ISSUER", "WALLET", "US", "NOBODY"]
"""Who must move next."""

MERCHANT: Final[tuple[Merchant | None, ...]] = (None, *get_args(Merchant))
PROCESSOR: Final[tuple[Processor | None, ...]] = (None, *get_args(Processor))
CARD: Final[tuple[Card | None, ...]] = (None, *get_args(Card))
WALLET: Final[tuple[Wallet | None, ...]] = (None, *get_args(Wallet))
OWNERS: Final[tuple[Owner, ...]] = get_args(Owner)


class Layers(Struct, array_like=True, frozen=True, gc=False):
    """What each party shows of one refund, or (`release`) of the release of a hold, which is no refund (R-212).

    `wallet` is CREDITED, too, for a card whose balance is all there is: its posting is the balance (R-223).
    """

    merchant: Merchant | None = None
    processor: Processor | None = None
    card: Card | None = None
    wallet: Wallet | None = None
    release: bool = False

    @property
    def closed(self) -> bool:
        """Whether all layers are closed: the one combination that lights the success mark (R-233)."""
        return self == CLOSED

    @property
    def refused(self) -> bool:
        """Whether the payee or the chain says no: an explicit failure (R-234)."""
        return self.merchant == "REJECTED" or self.processor in {"FAILED", "REVERSED"}


CLOSED: Final = Layers("COMPLETED", "SETTLED", "POSTED", "CREDITED")
