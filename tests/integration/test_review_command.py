"""`concord review` and `concord audit verify` against a real desk: what they do, print and refuse, and with which exit code."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from streams.gateway import server
from tests.support.desk import office, quick

pytestmark = pytest.mark.postgres


async def concord(*arguments: str, **env: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "streams", *arguments, env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def served(desk):
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()[:2]
    serving = server.server(desk.app, host=host, port=port, header_s=5, stop_s=5)
    task = asyncio.create_task(serving.serve([listener]))
    try:
        yield f"http://{host}:{port}"
    finally:
        serving.should_exit = True
        await task


async def test_a_discrepancy_goes_its_whole_way_on_the_command_line(postgres, monkeypatch):
    """R-197: claimed, commented, proposed by one and approved by another, and settled by the law."""
    quick(monkeypatch)
    async with office(postgres.dsn) as desk, served(desk) as url:
        name = await desk.late()

        async def review(who: str, *arguments: str) -> tuple[int, str, str]:
            key = desk.headers[who]["Authorization"].removeprefix("Bearer ")
            return await concord("review", *arguments, CONCORD_REVIEW_URL=url, CONCORD_REVIEW_KEY=key)

        code, listed, _ = await review("vera", "list", "--severity", "high")
        assert (code, name in listed, "LATE_SUCCESS" in listed) == (0, True, True)
        assert (await review("otto", "claim", name))[0] == 0
        assert (await review("otto", "comment", name, "asked the bank"))[1] == "comment 1\n"
        proposal = ("propose", name, "refund", "--evidence", "ticket 7", "--revision", "1")
        code, _, said = await review("vera", *proposal)
        assert (code, "RIGHT_MISSING" in said) == (1, True)
        assert (await review("otto", *proposal))[1] == "proposal 1\n"
        code, _, said = await review("otto", "approve", name, "1")
        assert (code, "RIGHT_MISSING" in said) == (1, True)
        code, told, _ = await review("anna", "approve", name, "1", "--reason", "seen")
        assert (code, told.split()[:2]) == (0, ["applied", "decided-refund"])
        shown = (await review("vera", "show", name))[1]
        for words in ("comment 1", "asked the bank", "proposal 1 refund by otto on ticket 7: applied by anna"):
            assert words in shown
        dsn = desk.dsn
        code, told, _ = await concord("audit", "verify", CONCORD_POSTGRES=dsn)
        head = told.split()[-1]
        assert (code, told.startswith("11 entries; head 11:")) == (0, True)
        code, key, _ = await concord("review", "admit", "nina", "viewer", CONCORD_POSTGRES=dsn)
        assert (code, key.startswith("rk_")) == (0, True)
        assert (await concord("review", "admit", "nina", "viewer", CONCORD_POSTGRES=dsn))[0] == 1
        assert (await concord("audit", "verify", "--kept", head, CONCORD_POSTGRES=dsn))[0] == 0
        code, told, _ = await concord("audit", "verify", "--kept", f"99:{'0' * 64}", CONCORD_POSTGRES=dsn)
        assert (code, "the log ends at 12" in told) == (1, True)


async def test_what_keeps_the_command_from_the_desk_is_said_with_its_fix():
    nobody = {"CONCORD_REVIEW_URL": "http://127.0.0.1:1", "CONCORD_REVIEW_KEY": "rk_0"}
    code, _, said = await concord("review", "list", **nobody)
    assert (code, "set CONCORD_REVIEW_URL" in said) == (3, True)
    code, _, said = await concord("review", "list", CONCORD_REVIEW_KEY="")
    assert (code, "CONCORD_REVIEW_KEY is empty" in said) == (2, True)
    code, _, said = await concord("audit", "verify", CONCORD_POSTGRES="")
    assert (code, "CONCORD_POSTGRES is empty" in said) == (2, True)
    code, _, said = await concord("audit", "verify", CONCORD_POSTGRES="postgresql://postgres@127.0.0.1:1/none")
    assert (code, "set CONCORD_POSTGRES" in said) == (4, True)
    code, _, said = await concord("audit", "verify", "--kept", "1:zz")
    assert (code, "64 hexadecimal digits" in said) == (2, True)
