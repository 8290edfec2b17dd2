"""RSA test keys and certificates that are the same for the same seed. Never for anything but a simulated channel: a seed is guessable."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from functools import cache
from math import gcd, prod
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

BITS: Final = 2048
EXPONENT: Final = 65537
ROUNDS: Final = 8
SMALL: Final = prod(n for n in range(3, 2000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2)))
SINCE: Final = datetime(2015, 1, 1, tzinfo=UTC)
UNTIL: Final = datetime(2100, 1, 1, tzinfo=UTC)


@cache
def key(seed: int, name: str) -> RSAPrivateKey:
    """The 2048-bit key of that name."""
    chance = random.Random(f"{name}/{seed}")  # noqa: S311  a test key, the same for the same seed
    p, q = _prime(chance), _prime(chance)
    d = pow(EXPONENT, -1, (p - 1) * (q - 1))
    public = RSAPublicNumbers(EXPONENT, p * q)
    numbers = RSAPrivateNumbers(p, q, d, rsa_crt_dmp1(d, p), rsa_crt_dmq1(d, q), rsa_crt_iqmp(p, q), public)
    return numbers.private_key()


def _prime(chance: random.Random) -> int:
    top = 3 << (BITS // 2 - 2)
    while True:
        candidate = chance.getrandbits(BITS // 2) | top | 1
        if gcd(candidate, SMALL) == 1 and (candidate - 1) % EXPONENT and _probably_prime(candidate, chance):
            return candidate


def _probably_prime(number: int, chance: random.Random) -> bool:
    """Miller and Rabin's test."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(ROUNDS):
        value = pow(chance.randrange(2, number - 1), odd, number)
        if value in (1, number - 1):
            continue
        for _ in range(twos - 1):
            value = value * value % number
            if value == number - 1:
                break
        else:
            return False
    return True


@cache
def loaded(pem: str) -> RSAPrivateKey:
    """The key of a PEM text of ours; reading one checks its primes, which takes a while."""
    own = load_pem_private_key(pem.encode(), None)
    assert isinstance(own, RSAPrivateKey)
    return own


def private_pem(own: RSAPrivateKey) -> str:
    return own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(own: RSAPrivateKey) -> str:
    return own.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def certificate(own: RSAPrivateKey, name: str, *, issuer: tuple[RSAPrivateKey, str] | None = None) -> x509.Certificate:
    """A certificate of `name`, by itself or by an issuer (its key and name); valid from 2015 to 2100."""
    signer, by = issuer or (own, name)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(by))
        .public_key(own.public_key())
        .serial_number(int.from_bytes(name.encode()[:16].ljust(1, b"x")))
        .not_valid_before(SINCE)
        .not_valid_after(UNTIL)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(signer, SHA256())
    )


def certificate_pem(made: x509.Certificate) -> str:
    return made.public_bytes(Encoding.PEM).decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
