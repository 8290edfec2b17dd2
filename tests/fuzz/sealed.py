"""Damage inside what a channel sealed: opened, damaged, sealed and signed again, as only the channel itself could send it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams.simulator import wechatpay
from streams.simulator.dialect import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    Harm = Callable[[Random, bytes], bytes]
    Inside = Callable[[Random, Delivery, Harm], Delivery]


def inside(channel: str, secrets: wechatpay.Secrets, at: datetime) -> Inside | None:
    """What damages the sealed content of a genuine notice of the channel; None for a channel that seals nothing."""
    if channel != "wechatpay":
        return None
    key: Final = AESGCM(secrets.api_key.encode())

    def damage(chance: Random, delivery: Delivery, harm: Harm) -> Delivery:
        notice = json.loads(delivery.body)
        resource = notice["resource"]
        nonce, bound = resource["nonce"].encode(), resource["associated_data"].encode()
        plain = harm(chance, key.decrypt(nonce, base64.b64decode(resource["ciphertext"]), bound))
        resource["ciphertext"] = base64.b64encode(key.encrypt(nonce, plain, bound)).decode()
        body = json.dumps(notice).encode()
        return Delivery(headers=wechatpay.signed(secrets, body, int(at.timestamp())), body=body)

    return damage
