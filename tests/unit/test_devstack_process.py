"""Services: found by their lock, stopped, and gone with their parent however it goes."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pipeline.devstack import ports
from pipeline.errors import EnvironmentFault
from pipeline.runtime.process import Service

SLEEP = ["sleep", "60"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")


@pytest.fixture
def service(tmp_path):
    service = Service("thing", tmp_path)
    yield service
    service.kill()


def gone(pid, seconds=5.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().split(") ")[1][0] == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("detached", [True, False])
def test_a_service_is_seen_by_whoever_looks_into_its_folder(service, tmp_path, detached):
    assert service.pid is None
    service.spawn(SLEEP, detached=detached)
    assert service.pid is not None
    assert Service("thing", tmp_path).pid == service.pid
    Service("thing", tmp_path).stop()
    assert service.pid is None


def test_a_stale_pid_is_not_mistaken_for_a_service(service, tmp_path):
    (tmp_path / "thing.pid").write_text(str(os.getpid()))
    assert service.pid is None
    service.stop()  # would end the test run
    service.kill()


def test_a_second_service_in_the_folder_is_refused(service, tmp_path):
    service.spawn(SLEEP, detached=False)
    with pytest.raises(EnvironmentFault) as caught:
        Service("thing", tmp_path).spawn(SLEEP, detached=False)
    assert caught.value.code == "DEVSTACK_RUNNING"
    assert service.pid is not None


def test_a_service_that_will_not_stop_is_killed(service):
    service.spawn(STUBBORN, detached=False)
    service.wait_until(lambda: "up" in service.tail(), 10)
    service.stop(grace=0.2)
    assert service.pid is None


def test_a_service_can_be_killed_and_started_again(service):
    service.spawn(SLEEP, detached=False)
    first = service.pid
    service.kill()
    service.spawn(SLEEP, detached=False)
    assert service.pid not in {None, first}


def test_a_service_that_ends_early_shows_the_end_of_its_log_and_only_of_this_start(service):
    service.spawn(["sh", "-c", "echo from the first start"], detached=False)
    with pytest.raises(EnvironmentFault):
        service.wait_until(lambda: False, 10)
    service.spawn(["sh", "-c", "echo no room left >&2; exit 3"], detached=False)
    with pytest.raises(EnvironmentFault, match="no room left") as caught:
        service.wait_until(lambda: False, 10)
    assert caught.value.code == "THING_FAILED"
    assert "ended before it was ready" in caught.value.message
    assert "first start" not in caught.value.message
    assert str(service.log) in caught.value.hint


def test_a_service_that_never_gets_ready_is_given_up(service):
    service.spawn(SLEEP, detached=False)
    with pytest.raises(EnvironmentFault, match="was not ready after 0 s"):
        service.wait_until(lambda: False, 0.1)


PARENT = """
import sys, threading, time
from pathlib import Path
from pipeline.runtime.process import Service
service = Service("thing", Path(sys.argv[1]))
def spawn():
    service.spawn(["sleep", "60"], detached=sys.argv[2] == "detached")
    time.sleep(0.5)  # by now the child has asked to be told when its parent ends
thread = threading.Thread(target=spawn)
thread.start()
thread.join()  # Linux means the thread when it says parent
time.sleep(0.2)
print(service.pid, flush=True)
time.sleep(60)
"""


@linux
@pytest.mark.parametrize("kind", ["tethered", "detached"])
def test_only_a_detached_service_outlives_a_parent_that_is_killed(tmp_path, kind):
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert not gone(pid, 0.1)
        parent.send_signal(signal.SIGKILL)
    if kind == "tethered":
        assert gone(pid)
    else:
        assert not gone(pid, 0.5)
        Service("thing", tmp_path).kill()
        assert gone(pid)


def test_a_free_port_is_free_and_outside_the_ephemeral_range():
    port = ports.free_port()
    assert ports.is_free(port)
    assert port < 32_768


def test_a_taken_port_is_refused_with_the_option_to_change():
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"Port {taken}") as caught:
            ports.require_free(taken, "broker", "--kafka-port")
    assert caught.value.code == "PORT_TAKEN"
    assert "--kafka-port" in caught.value.hint
    ports.require_free(taken, "broker", "--kafka-port")
