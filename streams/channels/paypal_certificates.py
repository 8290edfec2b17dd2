"""PayPal's certificates: which addresses are PayPal's, and which certificate is believed under one.

A notice names the address of the certificate that signed it. Fetching whatever a notice names would let a forger choose the key, so
certificates are configured beforehand: address PayPal's own, name PayPal's own, each one signed by the next, the last one by an
authority that is configured too (if any is). Validity is judged when a notice comes in.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

ADDRESS: Final = re.compile(
    r"https://api(?:\.sandbox)?\.paypal\.com/v1/notifications/certs/[A-Za-z0-9_\-]{1,128}", re.ASCII
)
NAME: Final = re.compile(r"(?:[a-z0-9\-]+\.)+paypal\.com", re.ASCII)


class Chain(NamedTuple):
    """The key of a certificate, and the time in which all of its chain is valid (UTC)."""

    key: RSAPublicKey
    since: datetime
    until: datetime


def is_paypals(url: str) -> bool:
    """Whether an address is one of PayPal's for certificates: host, path and nothing else."""
    return ADDRESS.fullmatch(url) is not None


def authority(pem: str, field: str) -> x509.Certificate:
    """A certificate of an authority. Raises `ValueError` naming the field."""
    found = _read(pem, field)
    if len(found) != 1 or not _may_sign(found[0]):
        raise ValueError(f"{field}: it is not one certificate of an authority; give the root's PEM text")
    return found[0]


def chain(url: str, pem: str, roots: Sequence[x509.Certificate]) -> Chain:
    """The certificate of an address with its intermediates. Raises `ValueError` naming the field and the fix."""
    field = f"certificates[{url}]" if is_paypals(url) else "certificates"
    if not is_paypals(url):
        raise ValueError(f"{field}: an address is not PayPal's; take it from PAYPAL-CERT-URL of a real notice")
    found = _read(pem, field)
    key = found[0].public_key()
    if not isinstance(key, RSAPublicKey):
        raise ValueError(f"{field}: its key is no RSA key; PayPal signs with RSA")  # noqa: TRY004  a file's content
    if not any(NAME.fullmatch(name.lower()) for name in _names(found[0])):
        raise ValueError(f"{field}: its name is not one of paypal.com; fetch it from its address again")
    _hold(found, roots, field)
    since = max(one.not_valid_before_utc for one in found)
    return Chain(key, since, min(one.not_valid_after_utc for one in found))


def _read(pem: str, field: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise ValueError(f"{field}: it is no certificate; give the PEM text") from error


def _names(certificate: x509.Certificate) -> list[str]:
    return [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def _hold(found: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], field: str) -> None:
    """Each certificate is issued by the next, and the last one by a root, where roots are configured."""
    for below, above in pairwise(found):
        if not _may_sign(above) or not _issued(below, above):
            raise ValueError(f"{field}: its chain is broken; give the certificate first, then each one's issuer")
    if roots and not any(found[-1] == root or _issued(found[-1], root) for root in roots):
        raise ValueError(f"{field}: its chain ends in none of `roots`; add the intermediates, or the right root")


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _issued(below: x509.Certificate, above: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
