"""`concord recon`: bills and statements, read, imported, compared, and what is proven by them."""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "coverage": "streams.cli.recon_coverage:coverage",
    "diff": "streams.cli.recon_again:diff",
    "import": "streams.cli.recon_import:imported",
    "read": "streams.cli.recon_read:read",
    "refunds": "streams.cli.recon_refunds:refunds",
    "replay": "streams.cli.recon_again:replay",
    "run": "streams.cli.recon_run:run",
    "show": "streams.cli.recon_show:show",
    "watch": "streams.cli.recon_watch:watch",
    "worklist": "streams.cli.recon_worklist:worklist",
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


@click.group(cls=Lazy)
def recon() -> None:
    """Prove every verdict against the files of channels and banks, and say for which days the proof is complete."""
