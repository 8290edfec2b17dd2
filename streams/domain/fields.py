"""The fields that events are made of: bounded, so that nothing that comes in can be larger than what the law keeps.

Amounts are integers in minor units of their currency, bounded to what every JSON reader holds exactly. Ids are opaque text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MAX_AMOUNT: Final = 2**53 - 1
"""The largest integer every JSON reader holds exactly; no payment comes near it."""

Amount: TypeAlias = Annotated[int, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT, description="integer minor units of `currency`")]
Currency: TypeAlias = Annotated[str, Meta(min_length=3, max_length=3, description="ISO 4217, three capital letters")]
Id: TypeAlias = Annotated[str, Meta(max_length=256, description="opaque text")]
Word: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=256)]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_AMOUNT)]

Details: TypeAlias = Annotated[dict[Word, Annotated[str, Meta(max_length=1024)]], Meta(max_length=16)]
"""What only the channel wants to know (a payment method token, the payer's id there, a description); unread by us."""
