"""`docker/compose.yaml` and the image as they are written, without Docker: what each service has, or a reason."""

import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from pipeline.devstack.ports import free_port

DOCKER = Path(__file__).parents[2] / "docker"
FILE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = FILE["services"]
PROFILES = {"stream", "canal", "files", "cluster", "airflow", "tidb"}
OURS = {name for name, service in SERVICES.items() if service["image"].startswith("ticdc-warehouse")}

WRITABLE = {
    "kafka": "its start writes its configuration beside the program",
    "registry": "what its Java server unpacks where is its own matter",
    **dict.fromkeys(("pd", "tikv", "tidb", "ticdc"), "their images cannot be pulled here: nobody has tried"),
}
OWN_USER = {"kafka": "appuser", "registry": "1001"}
"""Images whose own user is not root."""
ROOT = dict.fromkeys(("pd", "tikv", "tidb", "ticdc"), "a new volume is root's, and the image has no other user")
NOBODY_WAITS_FOR = {"shop", "canal-shop", "file-shop", "workload"}
"""Go on until they are stopped, and serve nothing that could be asked."""

each_service = pytest.mark.parametrize("name", SERVICES)


@each_service
def test_an_image_is_pinned_to_a_version(name):
    assert re.search(r":v?\d+\.\d+\.\d+$", SERVICES[name]["image"])


@each_service
def test_a_service_has_limits_and_may_not_become_more_than_it_is(name):
    service = SERVICES[name]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["cpus"] > 0
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "pid"} & set(service)


def megabytes(said):
    return int(said[:-1]) * {"m": 1, "g": 1024}[said[-1]]


@pytest.mark.parametrize(("name", "room"), [("spark-master", 256), ("spark-worker", 512)])
def test_a_server_of_spark_fits_into_its_limit_with_its_executor_and_what_java_takes_beside(name, room):
    service = SERVICES[name]
    heap = megabytes(service["environment"]["SPARK_DAEMON_MEMORY"])
    if "--memory" in service["command"]:
        heap += megabytes(service["command"][service["command"].index("--memory") + 1])
    assert heap + room <= megabytes(service["mem_limit"])


@each_service
def test_the_log_of_a_service_does_not_grow_for_ever(name):
    assert SERVICES[name]["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


def test_the_base_image_is_one_of_a_minor_version_that_a_build_may_pin():
    text = (DOCKER / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base)
    outside = {found for found in re.findall(r"^FROM (\S+)", text, re.MULTILINE) if found.startswith("$")}
    assert outside == {"${PYTHON_IMAGE}"}
    for name in OURS:
        assert SERVICES[name]["build"]["args"] == {"PYTHON_IMAGE": f"${{PYTHON_IMAGE:-{base}}}"}


@pytest.mark.parametrize("name", ["stream", "canal-stream", "file-stream", "tidb-stream"])
def test_a_pipeline_is_not_well_because_its_metrics_answer(name):
    assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "python", "-m", "pipeline.observe.probe"]


class Answers(BaseHTTPRequestHandler):
    """PD's server, as a check meets it: paths and what they answer."""

    pages = MappingProxyType({
        "/pd/api/v1/health": (200, '[\n  {\n    "name": "pd",\n    "health": true\n  }\n]'),
        "/sick": (200, '[{"name":"pd","health":false}]'),
        "/down": (500, '"health": true'),
    })  # fmt: skip

    def do_GET(self):
        status, body = self.pages.get(self.path, (404, ""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def port():
    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "code"), [("/pd/api/v1/health", 0), ("/sick", 1), ("/down", 1), ("/nothing", 1), (None, 1)]
)
def test_a_server_of_the_profile_tidb_is_well_when_it_says_so_itself(port, path, code):
    program, *words, _, asked, wanted = (word.replace("$$", "$") for word in SERVICES["pd"]["healthcheck"]["test"][1:])
    place = [str(port), path, wanted] if path else [str(free_port()), asked, wanted]
    assert subprocess.run([program, *words, *place], check=False, capture_output=True).returncode == code


def test_no_server_of_the_profile_tidb_is_well_because_its_port_is_open():
    for name in ("pd", "tikv", "tidb", "ticdc"):
        assert SERVICES[name]["healthcheck"]["test"][:4] == ["CMD", "bash", "-c", FILE["x-asks"]]
        assert SERVICES[name]["healthcheck"]["test"][6].startswith("/"), name


@each_service
def test_a_service_is_read_only_or_there_is_a_reason(name):
    assert SERVICES[name].get("read_only", False) is (name not in WRITABLE)
    if name not in WRITABLE:
        assert any(place.startswith("/tmp") for place in SERVICES[name]["tmpfs"])  # noqa: S108 - in a container


@each_service
def test_a_service_is_not_roots_or_there_is_a_reason(name):
    user = SERVICES[name].get("user")
    if name in OURS | set(OWN_USER) | set(ROOT):
        assert user is None  # the image's own
    else:
        assert int(user.partition(":")[0]) > 0


def test_our_images_are_not_roots():
    stages = re.split(r"^FROM ", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    users = {
        stage.split()[2]: re.findall(r"^USER (\S+)", stage, re.MULTILINE) for stage in stages[1:] if " AS " in stage
    }
    assert users["warehouse"] == ["10001:10001"]
    assert users["airflow"] == ["root", "10001:10001"]
    assert stages[-1].strip() == "warehouse"


def test_what_spark_spills_goes_to_a_volume_and_not_into_memory():
    text = (DOCKER / "Dockerfile").read_text()
    (scratch,) = re.findall(r"SPARK_LOCAL_DIRS=(\S+)", text)
    (volumes,) = re.findall(r"^VOLUME (/data.*)$", text, re.MULTILINE)
    assert scratch in volumes.split()
    assert re.search(rf"install -d -m 1777 {scratch}$", text, re.MULTILINE)  # for whatever user
    for name in OURS:
        assert not any(place.split(":")[0] == scratch for place in SERVICES[name]["tmpfs"]), name
        assert "SPARK_LOCAL_DIRS" not in SERVICES[name].get("environment", {}), name
    assert f"{scratch}/work" in SERVICES["spark-worker"]["command"]


@each_service
def test_whoever_is_waited_for_can_be_what_it_is_waited_for(name):
    for other, told in SERVICES[name].get("depends_on", {}).items():
        awaited = SERVICES[other]
        if told["condition"] == "service_healthy":
            assert "test" in awaited["healthcheck"], other
        elif told["condition"] == "service_completed_successfully":
            assert "restart" not in awaited, other
        else:
            assert other in NOBODY_WAITS_FOR


@each_service
def test_whoever_goes_on_says_how_it_is(name):
    service = SERVICES[name]
    assert "healthcheck" in service or "restart" not in service or name in NOBODY_WAITS_FOR


@each_service
def test_a_profile_brings_all_that_its_services_wait_for(name):
    own = set(SERVICES[name].get("profiles", ()))
    assert own <= PROFILES
    for other in SERVICES[name].get("depends_on", {}):
        there = set(SERVICES[other].get("profiles", ()))
        assert not there or (own and own <= there), other


@each_service
def test_ports_are_open_to_this_machine_alone_and_volumes_are_there(name):
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port)
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.partition(":")[0]
        assert (DOCKER / source).is_dir() if source.startswith(".") else source in FILE["volumes"]


def test_ports_collide_nowhere_and_no_volume_is_left_over():
    ports = [re.search(r":-(\d+)", port)[1] for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports))
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert set(FILE["volumes"]) <= used


def test_no_reason_outlives_its_service():
    assert set(WRITABLE) | set(OWN_USER) | set(ROOT) | NOBODY_WAITS_FOR <= set(SERVICES)
