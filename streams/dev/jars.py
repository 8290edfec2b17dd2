"""Where Kafka's jars come from: one Maven coordinate, resolved once through `jgo` and remembered.

The class path of a version is written down only when every jar of it is whole, so later starts read one file and take
no network. jgo writes a download straight into place, so a jar cut short is recognised (it is no whole zip) and fetched
again.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
import threading
import warnings
import xml.etree.ElementTree as ET  # only for its error: jgo parses poms of its own download
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streams.dev.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")
VERSION: Final = "4.2.1"
MEGABYTES: Final = 45
"""About what the jars of a version take."""
TRIES: Final = 3
TIMEOUT_S: Final = 30


def version(env: Mapping[str, str] | None = None) -> str:
    """The Kafka version that was asked for: `CONCORD_KAFKA_VERSION`, or the one this release is proven on."""
    return (os.environ if env is None else env).get("CONCORD_KAFKA_VERSION") or VERSION


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where jars are kept: `CONCORD_CACHE_DIR`, or `concord` in the user's cache folder. Shared by every checkout."""
    env = os.environ if env is None else env
    if env.get("CONCORD_CACHE_DIR"):
        return Path(env["CONCORD_CACHE_DIR"]).expanduser().resolve()
    return (Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "concord").resolve()


def class_path(kafka_version: str, *, cache: Path | None = None, console: Console | None = None) -> list[Path]:
    """The jars of a Kafka server, downloaded if need be. Raises `ServiceError` if they cannot be had."""
    cache = cache or cache_folder()
    remembered = recall(cache, kafka_version)
    if remembered:
        return remembered
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache):
            return recall(cache, kafka_version) or _download(cache, kafka_version, console or Console(stderr=True))
    except OSError as error:  # a full disk, a read-only folder; requests' errors are OSErrors too
        raise _cannot_have(kafka_version, cache, error) from error


def tools(kafka_version: str, *, cache: Path | None = None) -> Path:
    """The jar of Kafka's own command-line tools, downloaded if need be. Raises `ServiceError` if it cannot be had."""
    cache = cache or cache_folder()
    with _sockets_left_to_the_collector():
        context = _maven(cache)
        artifact = context.create_dependency(f"org.apache.kafka:kafka-tools:{kafka_version}").artifact
        return _persist(lambda: _whole_jar(artifact), kafka_version, cache)


def recall(cache: Path, kafka_version: str) -> list[Path]:
    """The class path found earlier, if every jar of it is still there at its full size; else nothing."""
    try:
        sizes: dict[str, int] = json.loads(_memory(cache, kafka_version).read_text())
        jars = {cache / name: size for name, size in sizes.items()}
        whole = all(jar.stat().st_size == size for jar, size in jars.items())
    except (OSError, ValueError, AttributeError):  # never resolved, or a file that someone removed or cut
        return []
    return list(jars) if whole else []


def remember(cache: Path, kafka_version: str, jars: Sequence[Path]) -> None:
    """Write a class path down, relative to the cache and with sizes; atomically."""
    memory = _memory(cache, kafka_version)
    part = memory.with_suffix(".part")
    part.write_text(json.dumps({str(jar.relative_to(cache)): jar.stat().st_size for jar in jars}, indent=1))
    part.replace(memory)


def _memory(cache: Path, kafka_version: str) -> Path:
    return cache / f"kafka-{kafka_version}.json"


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two commands at once must not write the same jar; the second waits, and finds the work done."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _sockets_left_to_the_collector() -> Iterator[None]:
    """jgo drops streamed answers without closing them; they are collected here, not under somebody else's feet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()


def _maven(cache: Path) -> Any:
    try:
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise ServiceError(
            f"jgo is not installed, so Kafka cannot be downloaded: pip install 'concord[local]' ({error})"
        ) from error
    return MavenContext(resolver=PythonResolver(), repo_cache=cache / "maven", timeout=TIMEOUT_S)


def _download(cache: Path, kafka_version: str, console: Console) -> list[Path]:
    context = _maven(cache)
    with _sockets_left_to_the_collector(), _progress(console) as progress:
        task = progress.add_task(f"Kafka {kafka_version}: finding its jars (once)", total=None)
        artifacts = _persist(lambda: _resolve(context, kafka_version), kafka_version, cache)
        progress.update(task, description=f"Kafka {kafka_version}: downloading jars (once)", total=len(artifacts))
        lock = threading.Lock()

        def fetch(artifact: Any) -> Path:
            jar = _persist(lambda: _whole_jar(artifact), kafka_version, cache)
            with lock:
                progress.advance(task)
            return jar

        with ThreadPoolExecutor(6, "jars") as pool:
            jars = list(pool.map(fetch, artifacts))
    remember(cache, kafka_version, jars)
    return jars


def _progress(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def _resolve(context: Any, kafka_version: str) -> list[Any]:
    """Kafka's runtime artifacts, and a plain writer for its log (Kafka depends on slf4j's interface only)."""
    kafka, others = context.resolver.resolve(
        [context.create_dependency(f"org.apache.kafka:kafka_2.13:{kafka_version}")]
    )
    artifacts = [dependency.artifact for dependency in (*kafka, *others)]
    slf4j = next((a.component.version for a in artifacts if a.artifactId == "slf4j-api"), None)
    if slf4j is None:
        raise RuntimeError(f"kafka_2.13 {kafka_version} has no runtime dependencies; its pom may be cut short")
    return [*artifacts, context.create_dependency(f"org.slf4j:slf4j-simple:{slf4j}").artifact]


def _whole_jar(artifact: Any) -> Path:
    jar = Path(artifact.resolve())
    if not zipfile.is_zipfile(jar):
        jar.unlink()
        raise ConnectionError(f"{jar.name} was cut short on its way")
    return jar


def _persist(work: Callable[[], T], kafka_version: str, cache: Path) -> T:
    """Try again what a flaky line broke; say what to do about the rest."""
    for left in reversed(range(TRIES)):
        try:
            return work()
        except OSError as error:
            if not left:
                raise _cannot_have(kafka_version, cache, error) from error
        except ET.ParseError as error:  # a pom cut short: fetch all of them again
            shutil.rmtree(cache / "maven", ignore_errors=True)
            if not left:
                raise _cannot_have(kafka_version, cache, error) from error
        except (RuntimeError, ValueError) as error:  # jgo's way to say that there is no such artifact
            raise _cannot_have(kafka_version, cache, error) from error
    raise AssertionError("unreachable")


def _cannot_have(kafka_version: str, cache: Path, error: Exception) -> ServiceError:
    return ServiceError(
        f"Kafka {kafka_version} could not be downloaded from Maven Central: {error}\n"
        f"  Check the version (CONCORD_KAFKA_VERSION, --kafka-version; default {VERSION}) and the network, and run the same "
        f"command again: what was fetched is kept in {cache}.\n"
        "  Or use a Kafka that is already running: CONCORD_KAFKA=host:port."
    )
