"""Every reader by name and version. What a file was read with is recorded, and stays here for as long as anybody may read it again.

A version never changes what it makes of the same bytes; a better reader is a new version beside it. A file is recognised by what only its
own format has: a namespace, a first tag, the name of a column. What is recognised by nothing needs a layout.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from streams.domain.contract import Layout
from streams.statements import adyen, alipay, camt, mt940, ofx, opened, paypal, stripe, table, unionpay, wechatpay
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.lines import Line

HEAD: Final = 8192


class Parser(NamedTuple):
    """`kinds` of files that it reads; `takes_layout` where a text layout tells it how."""

    kinds: frozenset[str]
    read: Callable[[IO[bytes], str, Layout | None], Iterator[Line]]
    takes_layout: bool = False


def _table(stream: IO[bytes], kind: str, layout: Layout | None) -> Iterator[Line]:
    if layout is None:
        raise Refused(
            "unknown_layout",
            "nothing tells how this file is to be read; give --layout, or add it to the channel's contract",
        )
    return table.read(stream, layout, cast("Any", kind))


def _camt(stream: IO[bytes], kind: str, _layout: Layout | None) -> Iterator[Line]:
    return camt.read(stream, cast("Any", kind))


def _own(kind: str, read: Callable[[IO[bytes]], Iterator[Line]]) -> Parser:
    """A reader that knows its layout itself."""
    return Parser(frozenset({kind}), lambda stream, _kind, _layout: read(stream))


PARSERS: Final[dict[str, Parser]] = {
    "table/1": Parser(frozenset({"CHANNEL_BILL", "SETTLEMENT", "BANK_CSV"}), _table, takes_layout=True),
    "camt/1": Parser(frozenset({"CAMT052", "CAMT053", "CAMT054"}), _camt),
    "mt940/1": _own("MT940", mt940.statement),
    "wechatpay-bill/1": _own("CHANNEL_BILL", wechatpay.bill),
    "wechatpay-flow/1": _own("BANK_CSV", wechatpay.flow),
    "alipay-trade/1": _own("CHANNEL_BILL", alipay.trade),
    "alipay-account/1": _own("BANK_CSV", alipay.account),
    "adyen-settlement/1": _own("SETTLEMENT", adyen.settlement),
    "stripe-balance/1": _own("SETTLEMENT", stripe.balance),
    "paypal-activity/1": _own("SETTLEMENT", paypal.activity),
    "unionpay-zm/1": _own("SETTLEMENT", unionpay.settlement),
    "ofx/1": _own("OFX", ofx.statement),
}
KINDS: Final = tuple(sorted({kind for parser in PARSERS.values() for kind in parser.kinds}))

MARKS: Final = (
    ("微信订单号", "wechatpay-bill"),
    ("资金流水单号", "wechatpay-flow"),
    ("支付宝交易号", "alipay-trade"),
    ("账务流水号", "alipay-account"),
    ("Psp Reference", "adyen-settlement"),
    ("balance_transaction_id", "stripe-balance"),
    ("Receipt ID", "paypal-activity"),
)
"""A column that only this format has -> the reader's name."""


class Chosen(NamedTuple):
    parser: str
    kind: str


def recognised(stream: IO[bytes]) -> Chosen | None:
    """The reader of a seekable stream, by its beginning; None where it has no mark. Raises `Refused` for a broken archive.

    Any other XML is handed to the reader of statements, which says what is wrong with it.
    """
    stream.seek(0)
    try:
        with opened.member(stream, "明细") as packed:
            head = opened.plain(packed).read(HEAD)
    except opened.BROKEN as wrong:
        raise Refused("compression", f"{wrong}; the file is cut off or damaged, fetch it again") from wrong
    finally:
        stream.seek(0)
    found = re.search(rb"iso:20022:tech:xsd:camt\.(05[234])\.", head)
    if found is not None:
        return Chosen(newest("camt"), f"CAMT{found[1].decode()}")
    if re.match(rb"(?:\xef\xbb\xbf)?\s*(?:\{1:|:20:)", head):
        return Chosen(newest("mt940"), "MT940")
    if b"OFXHEADER" in head or b"<OFX>" in head:
        return Chosen(newest("ofx"), "OFX")
    if re.match(rb"(?:\xef\xbb\xbf)?\s*<", head):
        return Chosen(newest("camt"), "CAMT053")
    texts = [head.decode("utf-8", "ignore"), head.decode("gbk", "ignore")]
    for mark, name in MARKS:
        if any(mark in text for text in texts):
            parser = newest(name)
            return Chosen(parser, *PARSERS[parser].kinds)
    return None


def newest(name: str) -> str:
    """The last version of a reader."""
    return max(
        (one for one in PARSERS if one.rpartition("/")[0] == name), key=lambda one: int(one.rpartition("/")[2])
    )  # fmt: skip


def read(parser: str, stream: IO[bytes], kind: str, layout: str = "") -> Iterator[Line]:
    """The lines of a seekable stream. `layout` is JSON, as it is recorded with the batch. Raises `Refused`."""
    known = PARSERS.get(parser)
    if known is None or kind not in known.kinds:
        raise Refused("unknown_layout", f"parser {parser!r} does not read {kind}; known are {', '.join(PARSERS)}")
    stream.seek(0)
    return known.read(stream, kind, msgspec.json.decode(layout, type=Layout) if layout else None)
