"""Bytes as they came: records of an input topic, and HTTP notices. What cannot be read is set aside, and the next one is taken.

A notice is verified over its raw bytes first and decoded after. A document type in XML is refused before anything of it is expanded
or opened. A field that stands twice could be read two ways, so it is not read at all.
"""

from __future__ import annotations

import codecs
import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import unquote_to_bytes
from xml.parsers import expat

from streams.replay.shapes import SHAPES, NotUnderstoodError, from_wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streams.domain.contract import Contract

CHARSET: Final = re.compile(rb'"charset"\s*:\s*"([A-Za-z0-9_.:-]+)"')
XML_ENCODING: Final = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]+)[\"']")
XML_DECLARATION: Final = re.compile(r"^\ufeff?\s*<\?xml[^>]*\?>")
WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
TRUTH: Final = {"true": True, "false": False}


class UndecodableError(ValueError):
    """These bytes are no notice and no record; the message says why."""


def bytes_of(event: Mapping[str, Any], name: str) -> bytes | None:
    """A field that is written as text or as hexadecimal digits; None if it is neither."""
    text, digits = event.get(f"{name}_utf8"), event.get(f"{name}_hex")
    if text is not None:
        return str(text).encode("utf-8", "surrogatepass")
    if digits is None:
        return None
    try:
        return bytes.fromhex(digits)
    except ValueError as wrong:
        raise NotUnderstoodError(f"{name}_hex: {wrong}") from wrong


# -- records


def record(event: Mapping[str, Any], contracts: Mapping[str, Contract]) -> dict[str, Any]:
    """The event in a raw record. Its key must be the order, where the event names one."""
    value = bytes_of(event, "value")
    if value is None:
        raise UndecodableError("a tombstone; inputs are never deleted")
    fields = _json(_text(value, "utf-8"))
    channel = fields.get("channel") if isinstance(fields, dict) else None
    contract = contracts.get(str(channel))
    try:
        known = from_wire(fields, major=contract is not None and contract.amount_unit == "major")
    except NotUnderstoodError as wrong:
        raise UndecodableError(str(wrong)) from wrong
    key = bytes_of(event, "key")
    if "order" in known and key != known["order"].encode():
        raise UndecodableError(f"the key is {key!r} and the order {known['order']!r}")
    if key is not None:
        _text(key, "utf-8")
    return known


def _text(value: bytes, encoding: str) -> str:
    try:
        return codecs.decode(value, encoding)
    except (UnicodeDecodeError, LookupError) as wrong:
        raise UndecodableError(str(wrong)) from wrong


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as wrong:
        raise UndecodableError(str(wrong)) from wrong


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise UndecodableError(f"field {name!r} stands twice")
        fields[name] = value
    return fields


# -- notices


def verified(event: Mapping[str, Any], body: bytes, contract: Contract) -> bool:
    """Whether the raw bytes carry the signature that the channel's contract asks for."""
    if contract.hmac_sha256_key is None:
        return True
    wanted = hmac.new(contract.hmac_sha256_key.encode(), body, hashlib.sha256).hexdigest()
    given = str(event.get("signature", "")).lower()
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogatepass"))


def callback(event: Mapping[str, Any], body: bytes, contract: Contract) -> dict[str, Any]:
    """The fields of CALLBACK that the body holds, typed; others are dropped."""
    kind, parameters = _content_type(str(event["content_type"]))
    charset = parameters.get("charset", "utf-8")
    if kind == "application/x-www-form-urlencoded":
        fields = _form(body, charset)
    elif kind == "application/json":
        found = CHARSET.search(body)
        fields = _json(_text(body, found[1].decode() if found else charset))
    elif kind in {"text/xml", "application/xml"}:
        fields = _xml(body, charset)
    else:
        raise UndecodableError(f"content type {kind!r} is not read")
    if not isinstance(fields, dict):
        raise UndecodableError("the body holds no fields")
    typed = {name: _typed(name, value) for name, value in fields.items() if name in SHAPES["CALLBACK"]}
    typed = {name: value for name, value in typed.items() if value is not None}
    for name, required in SHAPES["CALLBACK"].items():
        if required and name != "channel" and not typed.get(name):
            raise UndecodableError(f"{name} is missing; a notice needs it")
    minor = contract.amount_unit == "minor"
    return (
        {"type": "CALLBACK"}
        | {name: _amount(name, value, minor=minor) for name, value in typed.items()}
        | {"channel": event["channel"]}
    )


def _content_type(header: str) -> tuple[str, dict[str, str]]:
    kind, *rest = header.split(";")
    parameters = dict(part.strip().split("=", 1) for part in rest if "=" in part)
    return kind.strip().lower(), {name.lower(): value.strip().strip('"') for name, value in parameters.items()}


def _form(body: bytes, charset: str) -> dict[str, Any]:
    pairs = []
    for item in filter(None, body.split(b"&")):
        name, _, value = item.replace(b"+", b" ").partition(b"=")
        pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    stated = [value for name, value in pairs if name == b"charset"]
    encoding = _text(stated[0], "ascii") if stated else charset
    return _once((_text(name, encoding), _text(value, encoding)) for name, value in pairs)


def _xml(body: bytes, charset: str) -> dict[str, Any]:
    """The children of the root. Nothing is expanded and nothing is opened, because a document type ends the reading."""
    found = XML_ENCODING.match(body.lstrip(b"\xef\xbb\xbf \t\r\n"))
    text = XML_DECLARATION.sub("", _text(body, found[1].decode() if found else charset))
    reading = _Children()
    try:
        reading.parser.Parse(text, True)  # noqa: FBT003  as the library calls it
    except expat.ExpatError as wrong:
        raise UndecodableError(str(wrong)) from wrong
    fields = _once(reading.fields)
    stated = fields.get("charset")
    if stated and codecs.lookup(_known(stated)) != codecs.lookup(_known(found[1].decode() if found else charset)):
        return _once(_Children.of(XML_DECLARATION.sub("", _text(body, stated))))
    return fields


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError as wrong:
        raise UndecodableError(str(wrong)) from wrong


class _Children:
    """An XML reader that keeps the text of the root's children."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.fields: list[tuple[str, str]] = []
        self.depth = 0
        self.text = ""

    @classmethod
    def of(cls, text: str) -> list[tuple[str, str]]:
        reading = cls()
        try:
            reading.parser.Parse(text, True)  # noqa: FBT003  as the library calls it
        except expat.ExpatError as wrong:
            raise UndecodableError(str(wrong)) from wrong
        return reading.fields

    def _refuse(self, *_: object) -> NoReturn:
        raise UndecodableError("a document type declaration is refused")

    def _start(self, _name: str, _attributes: object) -> None:
        self.depth += 1
        self.text = ""

    def _end(self, name: str) -> None:
        if self.depth == 2:
            self.fields.append((name, self.text.strip()))
        self.depth -= 1

    def _data(self, text: str) -> None:
        self.text += text


def _typed(name: str, value: Any) -> Any:
    """Text of a form or a document as the type of its field; an empty one is an absent one."""
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if name in {"sequence", "version"}:
        if isinstance(text, str) and WHOLE.fullmatch(text):
            return int(text)
    elif name in {"livemode", "captured_flag"}:
        stated = TRUTH.get(text.lower()) if isinstance(text, str) else text
        if isinstance(stated, bool):
            return stated
    elif isinstance(text, str):
        return text
    raise UndecodableError(f"{name} is {value!r}, which it cannot be")


def _amount(name: str, value: Any, *, minor: bool) -> Any:
    """Amounts are text in the channel's unit; whole minor units become integers, what is no number cannot be read."""
    if name not in {"amount", "fee", "net_amount", "settle_amount", "cumulative_refunded", "charged_back"}:
        return value
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
        raise UndecodableError(f"{name} is {value!r}; send digits")
    whole, _, fraction = value.partition(".")
    if minor and not fraction.strip("0") and len(whole) < 19:
        return int(whole)
    return value
