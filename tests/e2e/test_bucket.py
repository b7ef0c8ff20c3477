"""A bucket of S3's API as a store, against a real server: what it lists, reads, and says when it is refused."""

import io
import time
from collections import Counter

import pytest
from golden.checking import currents_differ
from golden.comparing import assert_none
from golden.corpus import GoldenCase
from golden.expected import tables_at_the_end
from golden.storage import Tree, taken
from spark.open_events import Memory
from support.s3 import TamperedStore, s3_server
from support.s3.server import BUCKET

from pipeline.causes import explained
from pipeline.errors import EnvironmentFault
from pipeline.model.large_rows import Message
from pipeline.protocols.canal.protocol import CanalProtocol
from pipeline.protocols.large.claim_checks import ClaimChecks
from pipeline.sources.storage import bucket, frame
from pipeline.sources.storage.bucket import BucketStore, client_of
from pipeline.sources.storage.lanes import Lane, LaneEnd, live_folders
from pipeline.sources.storage.paths import METADATA, VersionPath
from pipeline.sources.storage.stores import store_at

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


class Prefix:
    """A prefix of the bucket with a changefeed's keys."""

    def __init__(self, server, name):
        self.client, self.name = client_of(server.options), f"{name}/"
        self.described, self.ends = set(), {}

    def write(self, *paths, content=b"x"):
        for path in paths:
            self.client.put_object(BUCKET, self.name + path, io.BytesIO(content), len(content))

    def describe(self, table, version):
        self.write(f"{table}/meta/schema_{version}_0000000001.json")
        self.described.add(VersionPath(table, version))

    def rows(self, folder, *numbers, dispatcher=""):
        for number in numbers:
            name = f"CDC_{dispatcher}_{number:020}.csv" if dispatcher else f"CDC{number:020}.csv"
            self.write(f"{folder}/{name}")
            self.ends[Lane(folder, dispatcher)] = LaneEnd(number, f"{folder}/{name}", time.time())
        self.write(f"{folder}/meta/CDC.index", content=f"{name}\n".encode())

    @property
    def live(self):
        return live_folders(self.ends, self.described)


def test_a_key_is_a_file_below_the_prefix(server):
    prefix = Prefix(server, "keys")
    prefix.write("metadata", content=b"0123456789")
    prefix.write("s/a+b ä%2F/5/CDC000001.csv", "odd//key", "folder/")
    store = server.store(prefix.name)
    listed = {entry.path for entry in store.everything()}
    assert {"metadata", "s/a+b ä%2F/5/CDC000001.csv"} <= listed
    assert "folder/" not in listed
    entry = store.entry("metadata")
    assert (entry.size, len(entry.etag)) == (10, 32)
    assert entry in set(store.everything())
    assert (store.read("metadata"), store.read("metadata", 8), store.read("metadata", 2, 3)) == (
        b"0123456789",
        b"89",
        b"234",
    )
    assert store.read("metadata", 10) == store.read("metadata", 99, 5) == store.read("metadata", 0, 0) == b""
    for ask in (store.entry, store.read):
        with pytest.raises(FileNotFoundError):
            ask("s/nothing")


def test_new_keys_are_found_behind_the_newest_ones_for_a_few_requests(server):
    prefix = Prefix(server, "recent")
    for table in ("s/t", "s/u"):
        for version in (5, 6):
            prefix.describe(table, version)
            prefix.rows(f"{table}/{version}/2026-01-01", *range(1, 40))
            prefix.rows(f"{table}/{version}/2026-01-02", *range(1, 40))
    del prefix.ends[Lane("s/t/5/2026-01-02", "")], prefix.ends[Lane("s/u/5/2026-01-02", "")]
    del prefix.ends[Lane("s/t/5/2026-01-01", "")], prefix.ends[Lane("s/u/5/2026-01-01", "")]
    tampered = TamperedStore(server)
    with tampered.running() as options:
        store = BucketStore(BUCKET, prefix.name, options)
        before = [entry.path for entry in store.recent(prefix.live)]
        assert not [path for path in before if "/5/" in path or "01-01/CDC" in path]
        new = [
            f"s/t/6/2026-01-02/CDC{40:020}.csv", f"s/u/6/2026-01-03/CDC{1:020}.csv", f"s/u/7/2026-01-03/CDC{1:020}.csv",
            "s/u/meta/schema_7_0000000001.json", f"s/v/8/2026-01-03/CDC{1:020}.csv", "r/meta/schema_9_0000000001.json",
        ]  # fmt: skip
        prefix.write(*new)
        tampered.requests.clear()
        assert {*new} <= {entry.path for entry in store.recent(prefix.live)}
        assert len(tampered.requests) <= 2 + 10  # two lanes are live


def test_a_number_of_more_digits_is_found_by_the_index_of_its_folder(server):
    prefix = Prefix(server, "width")
    prefix.describe("s/t", 5)
    prefix.write("s/t/5/CDC000007.csv")
    prefix.write("s/t/5/meta/CDC.index", content=b"CDC000007.csv")
    prefix.ends[Lane("s/t/5", "")] = LaneEnd(7, "s/t/5/CDC000007.csv", time.time())
    store = server.store(prefix.name)
    list(store.recent(prefix.live))
    prefix.write(f"s/t/5/CDC{8:020}.csv")
    prefix.write("s/t/5/meta/CDC.index", content=b"CDC00000000000000000008.csv")
    assert f"s/t/5/CDC{8:020}.csv" in {entry.path for entry in store.recent(prefix.live)}


def test_what_happened_between_two_runs_is_found_in_a_lane_that_lives(server):
    """TiCDC wrote its newest file anew, or goes on with more digits: a store that was not asked before sees it."""
    prefix = Prefix(server, "between")
    prefix.describe("s/t", 5)
    prefix.write("s/t/5/CDC000007.csv", content=b"first")
    prefix.write("s/t/5/meta/CDC.index", content=b"CDC000007.csv\n")
    prefix.ends[Lane("s/t/5", "")] = LaneEnd(7, "s/t/5/CDC000007.csv", time.time())
    (before,) = [entry for entry in server.store(prefix.name).recent(prefix.live) if entry.path.endswith(".csv")]
    prefix.write("s/t/5/CDC000007.csv", content=b"again")
    prefix.write(f"s/t/5/CDC{8:020}.csv")
    prefix.write("s/t/5/meta/CDC.index", content=f"CDC{8:020}.csv\n".encode())
    now = {entry.path: entry.etag for entry in server.store(prefix.name).recent(prefix.live)}
    assert now["s/t/5/CDC000007.csv"] != before.etag
    assert f"s/t/5/CDC{8:020}.csv" in now


def test_partitions_and_dispatchers_go_on(server):
    prefix = Prefix(server, "partitions")
    prefix.describe("s/t", 5)
    prefix.rows("s/t/5/101/2026-01-01", 1, 2)
    prefix.rows("s/t/5/102/2026-01-01", 1, 2)
    prefix.describe("s/u", 5)
    prefix.rows("s/u/5/2026-01-01", 1, dispatcher="b")
    first, second, third = (f"{number:020}.csv" for number in (1, 2, 3))
    new = [
        f"s/t/5/101/2026-01-01/CDC{third}", f"s/t/5/102/2026-01-02/CDC{first}", f"s/t/5/103/2026-01-01/CDC{first}",
        f"s/t/5/100/2026-01-01/CDC{first}", f"s/u/5/2026-01-01/CDC_a_{first}", f"s/u/5/2026-01-01/CDC_b_{second}",
    ]  # fmt: skip
    prefix.write(*new)
    assert {*new} <= {entry.path for entry in server.store(prefix.name).recent(prefix.live)}


@pytest.mark.parametrize("code", ["AccessDenied", "SignatureDoesNotMatch"])
def test_what_is_not_allowed_says_so_and_no_secret(server, code):
    tampered = TamperedStore(server, lambda _method, path: (403, code) if "secret-file" in path else None)
    with tampered.running() as options:
        store = BucketStore(BUCKET, "", options)
        with pytest.raises(PermissionError, match=code) as refused:
            store.read("secret-file")
    assert refused.value.filename == "secret-file"
    assert options["s3.secret-access-key"] not in f"{refused.value!r} {store!r}"


def test_a_store_that_is_away_is_asked_again_and_given_up_at_last(server, monkeypatch):
    monkeypatch.setattr(bucket._Patience, "wait", lambda self, away: self.counted(away))
    waits = []

    def counted(_self, away):
        waits.append(str(away))
        if len(waits) > 3:
            raise EnvironmentFault("STORE_UNREACHABLE", str(away))

    monkeypatch.setattr(bucket._Patience, "counted", counted, raising=False)
    prefix = Prefix(server, "away")
    prefix.write("metadata")
    broken = {"left": 2}

    def answer(_method, path):
        if "metadata" in path and broken["left"]:
            broken["left"] -= 1
            return 503, "SlowDown"
        return None

    tampered = TamperedStore(server, answer)
    monkeypatch.setattr(bucket, "_SERVER_ERRORS", ())  # no hasty retries of the client's own
    with tampered.running() as options:
        store = BucketStore(BUCKET, prefix.name, options)
        assert store.read("metadata") == b"x"
        assert len(waits) == 2
        broken["left"] = 99
        with pytest.raises(EnvironmentFault, match="STORE_UNREACHABLE"):
            store.read("metadata")
    with pytest.raises(EnvironmentFault, match="STORE_UNREACHABLE"):
        BucketStore(BUCKET, "", {**options, "s3.endpoint": "http://127.0.0.1:1"}).read("metadata")


def test_a_changefeed_in_a_bucket_becomes_tidbs_tables(server, tmp_path, monkeypatch):
    """Files are cut by executors, and a second run begins where the first one ended."""
    monkeypatch.setattr(frame, "FEW_BYTES", 0)
    case = GoldenCase("key_updates", "storage_csv_day")
    tree, prefix = Tree.of(case, tmp_path), Prefix(server, "golden")
    settings = tree.settings(
        tmp_path, path=f"s3://{BUCKET}/golden", options=server.options, full_listing="1 second"
    )  # the second half of the files comes into older versions, too
    rows = tree.rows()
    later = rows[len(rows) // 2 :]
    for path in tree.paths():
        if path not in later and path != METADATA:
            prefix.write(path, content=(tree.whole / path).read_bytes())
    prefix.write(METADATA, content=b'{"checkpoint-ts":1}')
    taken(settings)
    for path in (*later, METADATA):
        prefix.write(path, content=(tree.whole / path).read_bytes())
    warehouse = taken(settings)
    assert_none([*currents_differ(case, warehouse, tables_at_the_end(case).values())])
    batches = warehouse.catalog.load_table(("_pipeline", "batches")).scan().to_arrow().to_pylist()
    assert max(batches, key=lambda batch: batch["batch_id"])["level"] == "exact"


def test_rows_that_were_too_large_lie_in_a_bucket_that_may_be_busy(server):
    prefix, asked, row = Prefix(server, "claims"), Counter(), b'{"data":[{"id":"1"}]}'
    prefix.write("row.json", content=row)

    def answer(_method, path):
        asked[path] += 1
        return (503, "SlowDown") if asked[path] == 1 else None

    place, form = f"s3://{BUCKET}/claims", CanalProtocol("UTC", {}, Memory()).large_rows()
    with TamperedStore(server, answer).running() as options:
        claims = ClaimChecks(place, store_at(place, options))
        sent = Message(b"key", b"sent")
        found = list(claims.messages([(sent, "row.json"), (sent, "gone.json")], form))
    assert found == [Message(b"key", row), form.marked(sent, "CLAIM_CHECK_MISSING")]
    assert max(asked.values()) > 1


DENIED = {
    "read metadata": lambda path, _: path.endswith("/metadata"),
    "list": lambda path, _: "list-type" in path,
    "read the first row": lambda path, _: path.endswith(".csv"),
    "read by executors": lambda path, times: path.endswith(".csv") and times > 1,
}


@pytest.mark.parametrize("what", DENIED)
def test_a_run_without_a_right_says_which(server, tmp_path, monkeypatch, what):
    monkeypatch.setattr(frame, "FEW_BYTES", 0)  # rows are read by executors
    case = GoldenCase("key_updates", "storage_csv_none")
    tree, prefix = Tree.of(case, tmp_path), Prefix(server, f"denied-{what.replace(' ', '-')}")
    for path in tree.paths():
        prefix.write(path, content=(tree.whole / path).read_bytes())
    place, asked = f"s3://{BUCKET}/{prefix.name.rstrip('/')}", Counter()

    def answer(_method, path):
        asked[path] += 1
        return (403, "AccessDenied") if DENIED[what](path, asked[path]) else None

    tampered = TamperedStore(server, answer)
    with tampered.running() as options:
        settings = tree.settings(tmp_path, path=place, options=options)
        with pytest.raises(Exception) as ended:  # noqa: PT011 - what an executor raises is Spark's, until it is told
            taken(settings)
    told = ended.value if isinstance(ended.value, EnvironmentFault) else explained(ended.value)
    assert (told.code, "s3:GetObject" in told.hint) == ("STORE_FORBIDDEN", True)
    assert what.split()[0] in told.message
    assert "AccessDenied" in told.message
    if what == "read by executors":  # its plan is written already
        warehouse = taken(tree.settings(tmp_path, path=place, options=server.options))
        assert_none([*currents_differ(case, warehouse, tables_at_the_end(case).values())])


def test_a_store_goes_to_executors_without_its_connection(server):
    import pickle  # noqa: PLC0415

    store = server.store("keys/")
    list(store.everything())
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own
    assert (copy.bucket, copy.prefix) == (store.bucket, store.prefix)
    assert copy.read("metadata") == store.read("metadata")
