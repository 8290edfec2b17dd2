"""`concord`: the command line. Commands are loaded when they are called, so that `--help` needs no Kafka client."""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "audit": "streams.cli.audit:audit",
    "channel-health": "streams.cli.channel_health:channel_health",
    "channels": "streams.cli.channels:channels",
    "connector": "streams.cli.connector:connector",
    "contracts": "streams.cli.contracts:contracts",
    "db": "streams.cli.db:db",
    "demo": "streams.cli.demo:demo",
    "dev": "streams.cli.dev:dev",
    "docs": "streams.cli.docs:docs",
    "explain": "streams.cli.explain:explain",
    "gateway": "streams.cli.gateway:gateway",
    "health": "streams.cli.health:health",
    "inbox": "streams.cli.inbox:inbox",
    "ingest": "streams.cli.ingest:ingest",
    "merchant": "streams.cli.merchant:merchant",
    "notifier": "streams.cli.notifier:notifier",
    "projector": "streams.cli.projector:projector",
    "recon": "streams.cli.recon:recon",
    "replay": "streams.cli.replay:replay",
    "review": "streams.cli.review:review",
    "route": "streams.cli.route:route",
    "router": "streams.cli.router:router",
    "simulate": "streams.cli.simulate:simulate",
    "topics": "streams.cli.topics:topics",
    "why": "streams.cli.why:why",
    "worker": "streams.cli.worker:worker",
}


class Lazy(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="concord")
def main() -> None:
    """Concord makes payment results agree, exactly once."""


if __name__ == "__main__":
    main()
