"""Several api processes on one port: any of them answers, and none outlives the service."""

import signal
import urllib.request

import msgspec
import psutil
import pytest

from cli.roles import processes_for
from tests.support.folders import temporary_folder
from tests.support.running import RunningService, start_service, wait_for


def answering(running: RunningService) -> int:
    """The process that answers on a connection of its own."""
    with urllib.request.urlopen(f"{running.base_url}/livez", timeout=30) as answer:
        return int(msgspec.json.decode(answer.read())["pid"])


@pytest.mark.parametrize(("cores", "processes"), [(0, 1), (1, 1), (2, 2), (8, 8), (64, 8)])
def test_there_is_an_api_process_for_each_core(cores: int, processes: int) -> None:
    assert processes_for(cores) == processes


def test_two_api_processes_serve_one_port_and_end_with_the_service() -> None:
    with temporary_folder() as folder, start_service(folder, "--api-processes", "2") as running:
        first, second = running.processes("api")
        assert {answering(running) for _ in range(20)} <= {first.pid, second.pid}
        assert all("api" in one.cmdline() for one in (first, second))
        first.suspend()
        try:
            wait_for(lambda: answering(running) == second.pid, "the other one answers")
        finally:
            first.resume()
        first.send_signal(signal.SIGKILL)
        assert answering(running) == second.pid
        wait_for(lambda: len(running.processes("api")) == 2, "the killed one is started again")
        assert running.process is not None
        children = psutil.Process(running.process.pid).children()
        running.process.kill()
        _, alive = psutil.wait_procs(children, timeout=40)
        assert not alive
