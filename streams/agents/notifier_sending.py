"""One notice to one address: signed, sent to an address that may be spoken to, and bounded in time and size.

The name is looked up here, every address that it has is judged, and the connection goes to one of those that were judged: nobody can
answer the second question differently. Redirects are not followed, and a connection serves one notice only.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import httpx
from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stores.notifications import Taken
    from streams.settings import Network

WITHIN_S: Final = 10.0
"""From the look-up to the last byte that is read."""
MOST_BYTES: Final = 16_384
"""How much of an answer's body is read: nothing depends on it, so that the connection ends as its server expects."""
FEWEST_KEY_BYTES: Final = 24
AGENT: Final = "concord-notifier"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(Exception):
    """It is not sent: the address, or its secret, cannot be used. The text names the field and the fix, never a secret or a query."""


class Outcome(NamedTuple):
    """What came of one try. `error` is empty when the merchant has acknowledged it; `status` is 0 without an answer."""

    status: int
    error: str


def is_public(address: Address) -> bool:
    """Whether it is an address of the open internet, and not one of ours in another form: mapped, 6to4, Teredo or NAT64 (R-086)."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in NAT64:
            inner.append(ipaddress.IPv4Address(address.packed[-4:]))
        if not all(is_public(one) for one in inner if one is not None):
            return False
        if address.ipv4_mapped is not None:
            return True
    return address.is_global and not address.is_multicast


NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class Guard:
    """Which addresses may be spoken to: the public ones, and those of the networks that the configuration allows."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def allows(self, address: Address) -> bool:
        return any(address in network for network in self._allowed)

    async def pin(self, url: httpx.URL) -> str:
        """The address to connect to. Raises `RefusedError`, also if only one of the name's addresses may not be spoken to."""
        if url.scheme not in ("https", "http") or not url.host or url.userinfo:
            raise RefusedError("notify_url: give an https address without a user")
        addresses = await self._resolve(url)
        if all(self.allows(one) for one in addresses):
            return str(addresses[0])
        if url.scheme != "https":
            raise RefusedError("notify_url: it is not https; give an https address")
        for one in addresses:
            if not (is_public(one) or self.allows(one)):
                raise RefusedError(
                    f"notify_url: {url.host} leads to {one}, which is not public; see CONCORD_NOTIFY_ALLOW"
                )
        return str(addresses[0])

    @staticmethod
    async def _resolve(url: httpx.URL) -> list[Address]:
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.raw_host.decode("ascii").strip("[]")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [ipaddress.ip_address(str(entry[4][0])) for entry in found]
        except (OSError, UnicodeError, ValueError):
            addresses = []
        if not addresses:
            raise RefusedError(f"notify_url: {url.host} leads nowhere; check its name")
        return addresses


class Pinned(httpx.AsyncBaseTransport):
    """Connects to the address that was judged. TLS still asks for the name; a connection is never used for a second name."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._inner = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        address = await self._guard.pin(request.url)
        request.extensions = {**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")}
        request.url = request.url.copy_with(host=address)  # the Host header was made from the name before
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Sender:
    """Sends notices. To be closed."""

    def __init__(self, guard: Guard, *, within_s: float = WITHIN_S) -> None:
        self._within_s = within_s
        self._client = httpx.AsyncClient(
            transport=Pinned(guard), timeout=within_s, follow_redirects=False, trust_env=False
        )

    async def send(self, taken: Taken, at: datetime) -> Outcome:
        """One try, bounded as a whole: 2xx is the acknowledgement, anything else is a failure with its reason."""
        try:
            async with asyncio.timeout(self._within_s):
                return await self._send(taken, at)
        except RefusedError as error:
            return Outcome(0, str(error))
        except TimeoutError:
            return Outcome(0, f"no answer within {self._within_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Outcome(0, type(error).__name__)  # its text may hold the address

    async def _send(self, taken: Taken, at: datetime) -> Outcome:
        if taken.url is None:
            raise RefusedError("notify_url: the merchant has none any more")
        headers = await asyncio.to_thread(signed, taken, at)
        async with self._client.stream("POST", taken.url, content=taken.body.encode(), headers=headers) as response:
            outcome = judged(response)
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(1):
                    read = 0
                    async for chunk in response.aiter_raw():
                        read += len(chunk)
                        if read > MOST_BYTES:
                            break
            return outcome

    async def close(self) -> None:
        await self._client.aclose()


def judged(response: httpx.Response) -> Outcome:
    """The status line decides."""
    if response.is_success:
        return Outcome(response.status_code, "")
    hint = "; redirects are not followed, give the final address" if response.is_redirect else ""
    return Outcome(response.status_code, f"answered {response.status_code}{hint}")


# -- signatures


def signed(taken: Taken, at: datetime) -> dict[str, str]:
    """The headers of Standard Webhooks; one signature for each secret, so that a merchant can change them without a gap."""
    secrets = [secret(reference) for reference in taken.secret_refs]
    if not secrets:
        raise RefusedError("notify_secret_refs: there is none; give a reference to a secret")
    return {
        "webhook-id": taken.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(one.sign(taken.id, at, taken.body) for one in secrets),
        "content-type": "application/json",
        "user-agent": AGENT,
    }


def secret(reference: str) -> Webhook:
    """What `env:NAME` or `file:PATH` refers to, read now, so that a new one serves at once: `whsec_` and base64 of 24 bytes or more."""
    kind, _, name = reference.partition(":")
    try:
        text = os.environ.get(name, "") if kind == "env" else Path(name).read_text(encoding="ascii")
        made = Webhook(text.strip())
    except (OSError, ValueError, EmptyWebhookSecretError) as error:
        raise RefusedError(f"notify_secret_refs: {reference} holds no secret; put whsec_ and base64 there") from error
    if len(base64.b64decode(text.strip().removeprefix("whsec_") + "==")) < FEWEST_KEY_BYTES:
        raise RefusedError(f"notify_secret_refs: {reference} is short; put {FEWEST_KEY_BYTES} bytes of chance there")
    return made
