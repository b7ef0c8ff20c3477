"""Looking after files: a table that was renamed and one that took its name share nothing, orphans least of all."""

import contextlib
import io
import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from e2e.bank import ACCOUNT, SCHEMA, Bank
from e2e.test_speculation import BankByCut
from golden.warehouse import Warehouse
from pyiceberg.catalog import load_catalog

from pipeline.cli import main
from pipeline.service import Pipeline
from pipeline.settings import load
from pipeline.simulate.avro import ddl_message

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

CREATE_TABLE, RENAME_TABLE = 3, 14
FIRST, SECOND = {1: 10, 2: 20}, {1: 7}


class Branch:
    """A bank whose accounts are renamed, and opened anew under the old name."""

    def __init__(self, stack, folder, bank=None, **maintenance):
        self.folder = folder
        self.bank = bank or Bank(stack, 5, (ACCOUNT,))
        self.bank.open()
        self.file = self.bank.settings(folder, warehouse={"maintenance": maintenance})

    def accounts(self, rows):
        for number, balance in rows.items():
            writer = self.bank.database.begin()
            writer.insert(SCHEMA, "account", {"id": number, "owner": f"o{number}", "balance": balance})
            transaction = self.bank.database.commit(writer)
            self.bank.feed.send(transaction)
            self.bank.last_ts = transaction.commit_ts

    def say(self, sql, action, name):
        moment = self.bank.database.commit(self.bank.database.begin()).commit_ts
        self.bank.feed._channel.broadcast(self.bank.topic(ACCOUNT), ddl_message(sql, action, SCHEMA, name, moment))
        self.bank.last_ts = moment

    def forget(self):
        """The source's new table is empty: these deletes are never sent."""
        writer = self.bank.database.begin()
        for row in self.bank.database.rows(SCHEMA, "account"):
            writer.delete(SCHEMA, "account", (row["id"],))
        self.bank.database.commit(writer)

    def run(self):
        self.bank.checkpoint()
        with Pipeline.open(load(self.file)) as pipeline:
            pipeline.run(available_now=True)

    def balances(self, name):
        table = Warehouse.at(self.folder / "warehouse").current(f"{SCHEMA}.{name}")
        return {row.values["id"]: row.values["balance"] for row in table.rows}

    def changes(self):
        """All rows of every changes table."""
        found = Warehouse.at(self.folder / "warehouse").changes()
        return {name: sorted(map(repr, rows)) for name, rows in found.items()}

    def maintain(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(["tables", "maintain", *words, "-c", str(self.file)]) == 0
        return out.getvalue()

    def counted(self):
        """By table: how many snapshots there are, and how many of them may go, as a dry run says."""
        tables = json.loads(self.maintain("--dry-run", "--output", "json"))["tables"]
        return tuple({row["table"]: row[what] for row in tables} for what in ("snapshots", "expirable"))

    def catalog(self):
        return load_catalog("warehouse", type="sql", uri=f"sqlite:///{self.folder}/warehouse/catalog.db")

    def location(self, name):
        return Path(self.catalog().load_table(f"{SCHEMA}.{name}").location().removeprefix("file:"))


def test_orphans_of_a_renamed_table_and_of_its_successor_are_removed_and_both_are_whole(stack, tmp_path):
    branch = Branch(stack, tmp_path)
    branch.accounts(FIRST)
    branch.run()
    branch.say("RENAME TABLE `bank`.`account` TO `bank`.`konto`", RENAME_TABLE, "konto")
    branch.forget()
    branch.say(
        "CREATE TABLE `bank`.`account` (`id` BIGINT PRIMARY KEY, `owner` VARCHAR(60) NOT NULL UNIQUE, "
        "`balance` DECIMAL(12,2) NOT NULL DEFAULT 0)", CREATE_TABLE, "account",
    )  # fmt: skip
    branch.accounts(SECOND)
    branch.run()
    names = [f"{name}{suffix}" for name in ("account", "konto") for suffix in ("", "__changes")]
    locations = {name: branch.location(name) for name in names}
    assert len(set(locations.values())) == len(names)
    assert not any(one in other.parents for one in locations.values() for other in locations.values())
    left = [location / "data" / "left-behind.parquet" for location in locations.values()]
    for file in left:
        file.write_bytes(b"of a run that was killed")
        os.utime(file, (time.time() - 4 * 86_400,) * 2)
    old = [path for location in locations.values() for path in location.rglob("*") if path.is_file()]
    for file in old:  # all as old as orphans must be: what a snapshot names must stay whatever its age
        os.utime(file, (time.time() - 4 * 86_400,) * 2)
    before = branch.changes()
    told = branch.maintain("--orphans")
    assert not any(file.exists() for file in left)
    assert "that no snapshot names" in told
    assert branch.changes() == before
    assert {name: len(rows) for name, rows in before.items()} == {
        f"{SCHEMA}.konto": len(FIRST), f"{SCHEMA}.account": len(SECOND),
    }  # fmt: skip
    assert branch.balances("konto") == FIRST
    assert branch.balances("account") == SECOND
    branch.accounts({3: 30})
    branch.run()
    assert branch.balances("account") == {**SECOND, 3: 30}
    branch.bank.close()


SHORT = {"keep_snapshots": 1, "keep_for": "500 milliseconds"}


@pytest.mark.slow
def test_tables_that_others_keep_in_the_catalog_are_left_alone(stack, tmp_path):
    branch = Branch(stack, tmp_path, **SHORT)
    branch.accounts(FIRST)
    branch.run()
    rows, catalog = pa.table({"n": [1]}), branch.catalog()
    catalog.create_namespace("theirs")
    theirs = catalog.create_table("theirs.table", rows.schema, location=f"file://{tmp_path}/theirs")
    for _ in range(3):
        theirs.append(rows)
    left = tmp_path / "theirs" / "data" / "of-a-write-that-is-under-way.parquet"
    left.write_bytes(b"theirs")
    os.utime(left, (0, 0))
    time.sleep(0.6)
    assert "theirs" not in branch.maintain("--orphans")
    assert left.exists()
    assert len(catalog.load_table("theirs.table").metadata.snapshots) == 3
    branch.bank.close()


@pytest.mark.slow
def test_how_far_it_has_come_is_never_forgotten(stack, tmp_path):
    """Neither by a compaction that stands before what says it, nor with the checkpoint gone besides."""
    branch = Branch(stack, tmp_path, **SHORT)
    for rows in (FIRST, {3: 30}):
        branch.accounts(rows)
        branch.run()
    for _ in range(3):
        time.sleep(0.6)
        snapshots, expirable = branch.counted()
        branch.maintain()
        left, _ = branch.counted()
        compactions = 1  # which a call may add to each table, before it expires
        for name, count in snapshots.items():
            assert count - expirable[name] <= left[name] <= count - expirable[name] + compactions
        assert branch.counted()[0] == left  # which is what a dry run leaves as it is
    shutil.rmtree(tmp_path / "checkpoint")
    branch.accounts({4: 40})
    branch.run()
    warehouse = Warehouse.at(tmp_path / "warehouse")
    assert sorted(batch["batch_id"] for batch in warehouse.own("batches")) == [0, 1, 2]
    assert len(warehouse.changes()["bank.account"]) == 4
    assert branch.balances("account") == {**FIRST, 3: 30, 4: 40}
    branch.bank.close()


def test_a_table_whose_shown_changes_have_expired_is_published_once(stack, tmp_path):
    """Watermarks stand still while rows come, for longer than snapshots are kept."""
    bank = BankByCut(stack, "simple")
    branch = Branch(stack, tmp_path, bank, expire_after_commits=1, **SHORT)
    bank.rounds(2)
    branch.run()
    bank.watermarks = False
    shown = branch.catalog().load_table("bank.account").current_snapshot().snapshot_id
    for _ in range(3):
        bank.rounds(1)
        branch.run()
        time.sleep(0.6)
    assert branch.catalog().load_table("bank.account").current_snapshot().snapshot_id == shown
    bank.watermarks = True
    bank.rounds(1)
    branch.run()
    assert branch.balances("account") == {row["id"]: row["balance"] for row in bank.truth(ACCOUNT)}
    with Pipeline.open(load(branch.file)) as pipeline:
        (table,) = pipeline.context.tables
        assert table.applied == table.changes.head()
    bank.close()
