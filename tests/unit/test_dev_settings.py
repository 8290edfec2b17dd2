"""What `concord dev` decides before anything runs: brokers' settings, records, class paths, ports, and where services
come from.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from streams.dev import brokers, containers, jars, ports, record, services
from streams.dev.brokers import Node
from streams.dev.errors import ServiceError
from streams.dev.kafka import KafkaCluster

if TYPE_CHECKING:
    from pathlib import Path

ONE = [Node(1, 1001, 1002, 1003)]
THREE = [Node(i, 1000 + i, 2000 + i, 3000 + i) for i in (1, 2, 3)]


class TestBrokers:
    def test_a_broker_binds_loopback_only(self, tmp_path: Path):
        listeners = brokers.properties(THREE[1], THREE, tmp_path, {})["listeners"]
        assert [part.split("://")[1].split(":")[0] for part in listeners.split(",")] == ["127.0.0.1"] * 3

    def test_clients_are_told_another_address_while_brokers_keep_theirs(self, tmp_path: Path):
        node = Node(1, 1001, 1002, 1003, advertised="127.0.0.1:7777")
        settings = brokers.properties(node, [node], tmp_path, {})
        assert settings["advertised.listeners"] == "CLIENT://127.0.0.1:7777,INSIDE://127.0.0.1:1002"
        assert settings["inter.broker.listener.name"] == "INSIDE"
        assert "CLIENT://127.0.0.1:1001" in settings["listeners"]

    @pytest.mark.parametrize(("nodes", "copies", "in_sync"), [(ONE, "1", "1"), (THREE, "3", "2")])
    def test_internal_topics_are_as_safe_as_the_cluster_allows(self, nodes, copies, in_sync, tmp_path: Path):
        settings = brokers.properties(nodes[0], nodes, tmp_path, {})
        assert settings["transaction.state.log.replication.factor"] == copies
        assert settings["transaction.state.log.min.isr"] == in_sync
        assert settings["offsets.topic.replication.factor"] == copies

    def test_extra_properties_have_the_last_word(self, tmp_path: Path):
        settings = brokers.properties(
            ONE[0], ONE, tmp_path, {"transaction.partition.verification.enable": "false", "num.io.threads": "1"}
        )
        assert settings["transaction.partition.verification.enable"] == "false"
        assert settings["num.io.threads"] == "1"

    def test_a_backslash_survives_a_properties_file(self):
        assert brokers.render({"log.dirs": "C:\\data"}) == "log.dirs=C:\\\\data\n"


class TestRecord:
    def test_a_cluster_comes_back_at_its_old_addresses(self, tmp_path: Path):
        record.write(
            tmp_path, record.Record(version="4.2.1", id="x", nodes=THREE, properties={"a": "b"}, jvm=["-Xmx1g"])
        )
        cluster = KafkaCluster.load(tmp_path)
        assert cluster is not None
        assert cluster.bootstrap == "127.0.0.1:1001,127.0.0.1:1002,127.0.0.1:1003"
        assert (cluster.version, cluster.properties, cluster.jvm) == ("4.2.1", {"a": "b"}, ("-Xmx1g",))

    @pytest.mark.parametrize(("version", "nodes"), [("4.4.0", 3), ("4.2.1", 1)])
    def test_data_of_another_version_or_size_are_refused(self, version, nodes, tmp_path: Path):
        record.write(tmp_path, record.Record(version="4.2.1", id="x", nodes=THREE, properties={}, jvm=[]))
        with pytest.raises(ServiceError, match=r"holds a cluster of Kafka 4\.2\.1 with 3 node\(s\).*--wipe"):
            KafkaCluster(tmp_path, version=version, nodes=nodes)

    def test_a_broken_record_says_which_file(self, tmp_path: Path):
        (tmp_path / record.NAME).write_text("{")
        with pytest.raises(ServiceError, match=r"cluster\.json cannot be read"):
            KafkaCluster.load(tmp_path)

    def test_a_cluster_has_one_node_or_three(self, tmp_path: Path):
        with pytest.raises(ServiceError, match="nodes=2: a cluster has one node or three"):
            KafkaCluster(tmp_path, nodes=2)

    def test_every_node_needs_its_port(self, tmp_path: Path):
        with pytest.raises(ServiceError, match="one port for each of the 3 nodes"):
            KafkaCluster(tmp_path, nodes=3, ports=[9092])

    def test_no_cluster_id_looks_like_an_option(self, monkeypatch: pytest.MonkeyPatch):
        answers = iter([b"\xfb" * 16, b"\x00" * 16])
        monkeypatch.setattr("secrets.token_bytes", lambda _size: next(answers))
        assert record.cluster_id() == "A" * 22


class TestClassPath:
    def remembered(self, cache: Path) -> Path:
        jar = cache / "maven" / "kafka.jar"
        jar.parent.mkdir()
        jar.write_bytes(b"jar")
        jars.remember(cache, "4.2.1", [jar])
        return jar

    def test_a_class_path_found_once_takes_no_network(self, tmp_path: Path):
        jar = self.remembered(tmp_path)
        assert jars.class_path("4.2.1", cache=tmp_path) == [jar]

    def test_another_version_is_another_class_path(self, tmp_path: Path):
        self.remembered(tmp_path)
        assert jars.recall(tmp_path, "4.4.0") == []

    def test_a_jar_that_was_cut_is_not_believed(self, tmp_path: Path):
        self.remembered(tmp_path).write_bytes(b"ja")
        assert jars.recall(tmp_path, "4.2.1") == []

    def test_a_jar_that_is_gone_is_not_believed(self, tmp_path: Path):
        self.remembered(tmp_path).unlink()
        assert jars.recall(tmp_path, "4.2.1") == []

    @pytest.mark.parametrize("text", ["", "[]", "null", '{"a": "b"'])
    def test_a_broken_memory_is_no_memory(self, text, tmp_path: Path):
        (tmp_path / "kafka-4.2.1.json").write_text(text)
        assert jars.recall(tmp_path, "4.2.1") == []

    def test_a_cache_that_cannot_be_written_is_named(self, tmp_path: Path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ServiceError, match="file") as refused:
            jars.class_path("4.2.1", cache=tmp_path / "file" / "cache")
        assert "CONCORD_KAFKA=host:port" in str(refused.value)

    def test_the_version_and_the_cache_are_settings(self, tmp_path: Path):
        assert jars.version({"CONCORD_KAFKA_VERSION": "4.4.0"}) == "4.4.0"
        assert jars.version({}) == jars.VERSION
        assert jars.cache_folder({"CONCORD_CACHE_DIR": str(tmp_path)}) == tmp_path
        assert jars.cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "concord"


class TestPorts:
    def test_free_ports_are_distinct_and_outside_the_range_of_outgoing_connections(self):
        found = ports.free(20)
        assert len(set(found)) == 20
        assert all(ports.LOW <= port < ports.HIGH <= 32_768 for port in found)

    def test_a_taken_port_is_refused_with_its_number_its_holder_and_the_fix(self):
        with socket.create_server((ports.HOST, 0)) as server:
            port = server.getsockname()[1]
            with pytest.raises(
                ServiceError, match=rf"port {port} on 127\.0\.0\.1 is taken by .*so Kafka cannot.*: try again"
            ):
                ports.require(port, "Kafka", "try again", patience_s=0)


def _answer(engine: socket.socket, answer: bytes) -> None:
    connection, _ = engine.accept()
    with connection:
        connection.recv(100)
        connection.sendall(answer)


class TestChoice:
    def test_the_environment_comes_first(self, tmp_path: Path):
        env = {"CONCORD_KAFKA": "kafka.example:9092", "CONCORD_POSTGRES": "postgresql://db.example/x"}
        kafka, postgres = services.kafka(tmp_path / "k", env=env), services.postgres(tmp_path / "p", env=env)
        assert (kafka.bootstrap, kafka.source) == ("kafka.example:9092", "environment")
        assert (postgres.dsn, postgres.source) == ("postgresql://db.example/x", "environment")
        kafka.wipe()
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_source_is_refused(self, tmp_path: Path):
        with pytest.raises(ServiceError, match="CONCORD_SERVICES='podman': use one of auto, docker, local"):
            services.kafka(tmp_path, env={"CONCORD_SERVICES": "podman"})

    def test_docker_does_not_do_three_nodes(self, tmp_path: Path):
        with pytest.raises(ServiceError, match="one Kafka node only"):
            services.kafka(tmp_path, nodes=3, env={"CONCORD_SERVICES": "docker"})

    def test_docker_without_an_engine_says_so(self, tmp_path: Path):
        env = {"CONCORD_SERVICES": "docker", "DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}
        with pytest.raises(ServiceError, match="no local Docker engine answers"):
            services.postgres(tmp_path, env=env)

    def test_an_engine_is_believed_when_it_answers_a_ping(self, tmp_path: Path):
        path = str(tmp_path / "docker.sock")
        with socket.socket(socket.AF_UNIX) as engine:
            engine.bind(path)
            engine.listen()
            for answer, believed in ((b"HTTP/1.0 200 OK\r\n\r\nOK", True), (b"HTTP/1.0 500 Broken\r\n\r\n", False)):
                thread = threading.Thread(target=_answer, args=(engine, answer))
                thread.start()
                assert containers.engine_answers({"DOCKER_HOST": f"unix://{path}"}) is believed
                thread.join()

    def test_an_engine_on_another_machine_is_not_used(self):
        assert not containers.engine_answers({"DOCKER_HOST": "tcp://docker.example:2375"})

    def test_a_container_is_found_again_by_its_folder(self, tmp_path: Path):
        container = containers.Container("0a1b", "apache/kafka:4.2.1", "127.0.0.1:20000")
        (tmp_path / containers.NAME).write_bytes(msgspec.json.encode(container))
        owned = services.owned_kafka(tmp_path)
        assert owned is not None
        assert (owned.source, owned.bootstrap, owned.detail) == ("docker", "127.0.0.1:20000", "apache/kafka:4.2.1")

    def test_a_container_tells_clients_the_published_port(self):
        settings = containers.kafka_environment(20000)
        assert settings["KAFKA_ADVERTISED_LISTENERS"].startswith("CLIENT://127.0.0.1:20000,")
        assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"

    def test_a_container_that_runs_is_not_said_to_be_at_another_port(self):
        for address, what in (
            ("127.0.0.1:20000", "apache/kafka"),
            ("postgresql://postgres@127.0.0.1:20000/concord", "postgres"),
        ):
            container = containers.Container("0a1b", what, address)
            services._require_unmoved(container, None)
            services._require_unmoved(container, 20000)
            with pytest.raises(ServiceError, match=f"{what} runs on port 20000, not 9092: .*concord dev down"):
                services._require_unmoved(container, 9092)

    def test_a_start_is_announced_only_if_there_is_one_and_a_download_only_if_there_is_one(self, tmp_path: Path):
        env = {"CONCORD_SERVICES": "local", "CONCORD_CACHE_DIR": str(tmp_path)}
        assert services.awaited(tmp_path / "k", env={**env, "CONCORD_KAFKA": "kafka.example:9092"}) == ""
        assert "about 45 MB, come from Maven Central" in services.awaited(tmp_path / "k", env=env)
        (tmp_path / "kafka.jar").write_bytes(b"jar")
        jars.remember(tmp_path, jars.VERSION, [tmp_path / "kafka.jar"])
        assert services.awaited(tmp_path / "k", env=env) == "Kafka is starting"
