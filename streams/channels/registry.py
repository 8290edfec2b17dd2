"""Which channels there are. A new one is a module beside this one and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.channels.adapter import AnyAdapter
    from streams.channels.requests import AnyRequests
    from streams.simulator.dialect import AnyDialect

CHANNELS: Final = (
    "stripe", "adyen", "alipay", "wechatpay", "paypal", "unionpay", "marqeta", "lithic", "simulator",
)  # fmt: skip
"""Each has `streams.channels.<name>` with `ADAPTER`."""
ASKED: Final = ("stripe", "adyen", "alipay", "wechatpay", "simulator")
"""Each has `streams.channels.<name>_requests` with `REQUESTS`."""


def adapter(channel: str) -> AnyAdapter:
    """The intake of a channel. Raises `KeyError` for a channel that is not there."""
    if channel not in CHANNELS:
        raise KeyError(channel)
    found: AnyAdapter = import_module(f"streams.channels.{channel}").ADAPTER
    return found


def requests(channel: str) -> AnyRequests:
    """The outgoing side of a channel. Raises `KeyError` for one that has none."""
    if channel not in ASKED:
        raise KeyError(channel)
    found: AnyRequests = import_module(f"streams.channels.{channel}_requests").REQUESTS
    return found


def dialect(channel: str) -> AnyDialect:
    """How the simulator speaks as this channel. Raises `KeyError` for a channel that is not there."""
    if channel not in CHANNELS:
        raise KeyError(channel)
    found: AnyDialect = import_module(f"streams.simulator.{channel}").DIALECT
    return found
