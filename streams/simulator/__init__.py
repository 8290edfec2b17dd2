"""Channels that are not there: a server that plays any of them from its contract, with faults on demand."""
