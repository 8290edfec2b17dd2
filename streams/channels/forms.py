"""Notices that are urlencoded forms, signed over their sorted fields: how such a form is read, and which text was signed.

The channel signs bytes of its own charset, so everything here is bytes until the signature is proved: a GBK notice is verified as it
came and decoded afterwards. The signed text joins `name=value` with `&` and escapes nothing, so a value that itself holds
`&total_amount=` could be cut another way with the same signature. `ambiguous` finds those; they are kept, not believed.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from streams.channels.verification import BadSignature, Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CONTENT_TYPES: Final = ("application/x-www-form-urlencoded",)
MOST_FIELDS: Final = 256
LONGEST_NAME: Final = 64
CHARSETS: Final = {"utf-8": "utf-8", "utf8": "utf-8", "gbk": "gb18030", "gb2312": "gb18030", "gb18030": "gb18030"}
"""The names that channels state, and what decodes them: GB 18030 holds all of GBK."""

Form = dict[str, bytes]


def fields_of(body: bytes) -> Form:
    """name -> raw value. Raises `Malformed` for what is no form, or has a field twice: one of the two would be signed, the other read."""
    return dict(_read(body))


@lru_cache(maxsize=1)  # verifying and mapping one notice both read it, one after the other
def _read(body: bytes) -> Form:
    found: Form = {}
    parts = body.split(b"&") if body else []
    if len(parts) > MOST_FIELDS:
        raise Malformed("body", f"it has more than {MOST_FIELDS} fields", "pass the form as it was received")
    for part in parts:
        name, equals, value = part.partition(b"=")
        plain = unquote_to_bytes(name) if b"%" in name else name
        if not equals or not 1 <= len(plain) <= LONGEST_NAME:
            raise Malformed("body", "it is not an urlencoded form", "pass the raw body as it was received")
        field = plain.decode("latin-1")
        if field in found:
            raise Malformed(field, "the field is there twice", "pass the raw body as it was received")
        text = value.replace(b"+", b" ") if b"+" in value else value
        found[field] = unquote_to_bytes(text) if b"%" in text else text
    return found


def signed_texts(
    form: Mapping[str, bytes], always_without: Iterable[str], perhaps_without: str = ""
) -> Iterator[bytes]:
    """The texts that the channel may have signed: sorted, without the signature, without empty values.

    Libraries differ in whether an empty value is signed, and a channel's kinds of notices in whether `perhaps_without` is, so each
    distinct text is given once.
    """
    given: set[bytes] = set()
    without = set(always_without)
    for left_out in ({*without, perhaps_without}, without):
        kept = sorted((name.encode("latin-1"), value) for name, value in form.items() if name not in left_out)
        for items in ([item for item in kept if item[1]], kept):
            text = b"&".join(name + b"=" + value for name, value in items)
            if text not in given:
                given.add(text)
                yield text


def signature_of(form: Mapping[str, bytes], field: str) -> bytes:
    """The signature in a field, decoded. Only its canonical base64 is taken, so that one notice has one form."""
    text = form.get(field, b"")
    if not text:
        raise Malformed(field, "the field is absent or empty", "pass the raw body as it was received")
    try:
        signature = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSignature(field, "it is not base64", "pass the raw body as it was received") from error
    if base64.b64encode(signature) != text:
        raise BadSignature(field, "it is not canonical base64", "pass the raw body as it was received")
    return signature


def decoded(form: Mapping[str, bytes], charset: bytes) -> dict[str, str] | None:
    """The values as text in the charset that the form itself states (UTF-8 without one); None if that cannot be."""
    name = CHARSETS.get(charset.decode("latin-1").strip().lower() or "utf-8")
    if name is None:
        return None
    try:
        return {field: value.decode(name) for field, value in form.items()}
    except UnicodeDecodeError:
        return None


def ambiguous(form: Mapping[str, bytes], trusted: Iterable[str]) -> str:
    """The first field whose value holds `&name=` of a field that we trust; empty text if there is none."""
    held = [(field, value) for field, value in form.items() if b"&" in value]
    marks = [b"&" + name.encode() + b"=" for name in trusted] if held else []
    return next((field for field, value in held if any(mark in value for mark in marks)), "")
