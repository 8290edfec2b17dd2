"""Properties are timed by the suite, not by the example: a shared machine stalls now and then.

A failure prints the blob that replays it (`@reproduce_failure`).
`HYPOTHESIS_PROFILE=long` looks fifty times longer; `mutants` is short and the same every time, as one change of the law at a time is tried.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("short", deadline=None, print_blob=True)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=5000)
settings.register_profile("mutants", deadline=None, derandomize=True, database=None, max_examples=40)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
