"""What a caller may take: bytes and seconds of a body, and a place among those in flight."""

from __future__ import annotations

import asyncio

import pytest

from streams.gateway.limits import Bounds, Gone, Pool, TooLarge, TooSlow, read_body

BOUNDS = Bounds(body_bytes=10, body_s=0.05)


def arriving(*parts: bytes, end: bool = True):
    """What an HTTP server hands over, piece by piece; without `end` the rest never comes."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if end:
        messages[-1]["more_body"] = False

    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        return None

    return receive


async def gone():
    return {"type": "http.disconnect"}


@pytest.mark.parametrize("parts", [[b""], [b"0123456789"], [b"01234", b"56789"], [b"0", b"", b"1"]])
async def test_a_body_within_its_bounds_is_read_whole(parts):
    assert await read_body(arriving(*parts), None, BOUNDS) == b"".join(parts)


@pytest.mark.parametrize("parts", [[b"0123456789!"], [b"01234", b"56789!"], [b"01234567", b"89!", b"more"]])
async def test_a_body_beyond_its_bytes_is_not_read_to_its_end(parts):
    with pytest.raises(TooLarge):
        await read_body(arriving(*parts), None, BOUNDS)


async def test_a_body_that_is_announced_too_large_is_not_read_at_all():
    with pytest.raises(TooLarge):
        await read_body(arriving(b"x", end=False), "11", BOUNDS)


@pytest.mark.parametrize("parts", [[], [b"01"], [b"01", b"2"]])
async def test_a_body_that_does_not_come_is_given_up(parts):
    with pytest.raises(TooSlow):
        await read_body(arriving(*parts, end=False), "5", BOUNDS)


async def test_a_caller_who_hangs_up_is_noticed():
    with pytest.raises(Gone):
        await read_body(gone, "5", BOUNDS)


def test_a_full_pool_turns_away_and_takes_in_again():
    pool = Pool(2)
    assert [pool.enter() for _ in range(3)] == [True, True, False]
    pool.leave()
    assert pool.enter()
