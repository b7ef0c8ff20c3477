"""Starts S3Proxy, whose jars Ivy fetches once and which are checked, and puts a proxy between that is ill at times."""

from __future__ import annotations

import http.client
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from pipeline.devstack import ports
from pipeline.runtime.jars import ivy, pins
from pipeline.runtime.jars.artefacts import cache_folder
from pipeline.runtime.java import find_java
from pipeline.sources.storage.bucket import BucketStore, client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
BUCKET = "changefeed"
_IDENTITY, _SECRET = "test", "a-secret-of-tests"
_STARTS_IN = 60.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server. `options`: as in `source.options`."""

    port: int

    @property
    def options(self) -> dict[str, str]:
        return options_of(self.port)

    def store(self, prefix: str = "") -> BucketStore:
        return BucketStore(BUCKET, prefix, self.options)


def options_of(port: int) -> dict[str, str]:
    return {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key-id": _IDENTITY,
        "s3.secret-access-key": _SECRET,
        "s3.region": "us-east-1",
    }


def jars() -> list[Path]:
    """The server's jars, fetched if need be."""
    wanted = dict(reversed(line.split("  ")) for line in (HERE / "jars.sha256").read_text().splitlines())
    home = cache_folder() / f"s3-for-tests-{pins.edition(wanted)}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / "s3-for-tests.lock"):
        if not home.exists():
            module = HERE / "ivy.xml"
            ivy.retrieve(home, cache_folder() / "ivy-s3", lambda _: None, module=module, confs=("s3",))
        pins.check(home, wanted)
    return [home / path for path in wanted]


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server over a folder, with a bucket."""
    port = ports.free_port()
    (folder / "data").mkdir()
    conf = folder / "s3proxy.conf"
    conf.write_text(
        f"s3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={_IDENTITY}\ns3proxy.credential={_SECRET}\n"
        f"s3proxy.endpoint=http://127.0.0.1:{port}\njclouds.provider=filesystem-nio2\njclouds.identity=x\n"
        f"jclouds.credential=x\njclouds.filesystem.basedir={folder / 'data'}\n"
    )
    (folder / "logback.xml").write_text("<configuration><root level='OFF'/></configuration>")
    command = [
        str(find_java().executable), "-Xmx256m", f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        "-cp", ":".join(map(str, jars())), "org.gaul.s3proxy.Main", "--properties", str(conf),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = client_of(options_of(port))
        deadline = time.monotonic() + _STARTS_IN
        while True:
            try:
                client.make_bucket(BUCKET)
                break
            except Exception:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.2)
        yield S3Server(port)
    finally:
        process.kill()
        process.wait()


@dataclass
class TamperedStore:
    """A proxy before a server: it counts requests, and `answer` may answer in the server's place (status, code)."""

    server: S3Server
    answer: Callable[[str, str], tuple[int, str] | None] = lambda _method, _path: None
    requests: list[tuple[str, str]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[dict[str, str]]:
        """The options that lead through it."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def handle_one(self) -> None:
                proxy.requests.append((self.command, self.path))
                instead = proxy.answer(self.command, self.path)
                if instead is not None:
                    status, code = instead
                    body = f"<Error><Code>{code}</Code><Message>as the test says</Message></Error>".encode()
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("Content-Type", "application/xml")
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(body)
                    return
                upstream = http.client.HTTPConnection("127.0.0.1", proxy.server.port, timeout=30)
                length = int(self.headers.get("Content-Length") or 0)
                upstream.request(self.command, self.path, self.rfile.read(length), dict(self.headers))
                got = upstream.getresponse()
                content = got.read()
                self.send_response(got.status)
                for name, value in got.getheaders():
                    if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                        self.send_header(name, value)
                size = got.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", size or "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                upstream.close()

        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_one)

        http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        try:
            yield options_of(http_server.server_address[1])
        finally:
            http_server.shutdown()
            http_server.server_close()
