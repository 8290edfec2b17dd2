"""`concord simulate`: play channels from their contracts, over HTTP, with faults by seed, until SIGINT or SIGTERM.

Exit codes: 0 stopped, 2 wrong usage.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams import log
from streams.channels.registry import CHANNELS
from streams.simulator import accounts_file
from streams.simulator.faults import FaultsError, Rates, rates
from streams.simulator.server import Played, Simulator, hush, play

if TYPE_CHECKING:
    from collections.abc import Sequence


class RatesType(click.ParamType):
    """`drop=0.05,lose=0.1`."""

    name = "faults"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rates:
        try:
            return value if isinstance(value, Rates) else rates(str(value))
        except FaultsError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--channels", default="simulator", show_default=True, help="channel[:account],… to play.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides keys, outcomes and faults.")
@click.option(
    "--faults", type=RatesType(), default="", help=f"Rates of {', '.join(Rates.__struct_fields__)}: drop=0.05,lose=0.1"
)
@click.option("--gateway", help="Address of the gateway that is told; without it nobody is.")
@click.option("--speed", type=click.FloatRange(min=0.001), default=1.0, show_default=True,
              help="Divides the distances between redeliveries.")  # fmt: skip
@click.option("--settle", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="Seconds that a slow payment takes.")  # fmt: skip
@click.option("--latency", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="Seconds that every request takes.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8700, show_default=True)
@click.option("--address", help="How others reach it, such as http://simulator:8700; it stands in the accounts file.")
@click.option("--credentials", type=click.Path(file_okay=False, path_type=Path), default=Path(".concord/simulator"), show_default=True,
              help="Folder that our side's credentials files are written to (test keys).")  # fmt: skip
@click.option("--accounts", type=click.Path(dir_okay=False, path_type=Path),
              help="Write an accounts file for gateway and connector here, as CONCORD_CHANNELS has it.")  # fmt: skip
@click.option("--merchant", metavar="NAME", help="Whose the accounts in that file are, for the cashier.")
def simulate(
    *,
    channels: str,
    seed: int,
    faults: Rates,
    gateway: str | None,
    speed: float,
    settle: float,
    latency: float,
    host: str,
    port: int,
    address: str | None,
    credentials: Path,
    accounts: Path | None,
    merchant: str | None,
) -> None:
    """Play channels over HTTP as their contracts say, with faults decided by the seed."""
    log.configure(level="info")
    hush()
    played = [_play(name.strip(), seed, faults, settle) for name in channels.split(",") if name.strip()]
    if not played:
        raise click.UsageError("--channels is empty; name at least one, as simulator or stripe:acct_1")
    base = address or f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104  compared, not listened on
    for one in played:
        click.echo(f"{one.channel}:{one.account} at {base}/{one.channel} with {one.write_credentials(credentials)}")
    if accounts is not None:
        _list(accounts, played, credentials, base, merchant)
    asyncio.run(_run(Simulator(played, gateway, speed, latency_s=latency), host, port))


def _play(name: str, seed: int, faults: Rates, settle: float) -> Played:
    try:
        return play(name, seed, faults, settle_s=settle)
    except (KeyError, ImportError) as error:
        raise click.UsageError(f"--channels: {name!r} cannot be played; use {', '.join(CHANNELS)}") from error


def _list(path: Path, played: list[Played], folder: Path, base: str, merchant: str | None) -> None:
    try:
        accounts_file.write(path, played, folder, base, merchant)
    except (accounts_file.ForeignError, OSError) as error:
        raise click.UsageError(f"--accounts: {error}") from error
    click.echo(f"{path} lists them: give it to `concord gateway` and `concord connector` as CONCORD_CHANNELS")


async def _run(simulator: Simulator, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    for number in _signals():
        loop.add_signal_handler(number, simulator.stop)
    await simulator.serve(host, port)


def _signals() -> Sequence[signal.Signals]:
    return (signal.SIGINT, signal.SIGTERM)
