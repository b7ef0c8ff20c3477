"""A shop's `_pipeline` tables after 40 batches, as rows: the same every time, and some of its values hostile."""

import datetime as dt
import json
import zlib

NOW = dt.datetime(2026, 11, 21, 12, 0, 30, tzinfo=dt.UTC)
FIRST, LAST = 101, 140
HELD_AT, NEGATIVE_AT, EMAIL_AT = 131, 128, 133
SCRIPT = "<script>document.title='owned'</script>"
HOSTILE = (
    f'"><img src=x onerror="document.title=1"> {SCRIPT} | `rm -rf` | [x](http://evil.example)'
    "\r\n# no\x00\x1b[31m\u202e\ud800"
)
SIZES = {"customers": 30, "order_items": 240, "orders": 90, "payments": 70}
BUILTIN = [("builtin:key_not_null", "quarantine"), ("builtin:checksum", "quarantine")]
OF_ORDERS = [("builtin:enum_members", "warn"), ("total_not_negative", "quarantine"), ("paid_matches_total", "warn")]
CHECKS = {
    "customers": [*BUILTIN, ("email looks right", "warn")],
    "order_items": [*BUILTIN, ("quantity_positive", "warn")],
    "orders": [*BUILTIN, *OF_ORDERS],
    "payments": [*BUILTIN, ("amount_is_sane", "hold")],
}


def between(low, high, *seed):
    """A number that looks like chance and is always the same."""
    return low + zlib.crc32(repr(seed).encode()) % (high - low + 1)


def at(batch):
    return dt.datetime(2026, 11, 21, 9, 39, tzinfo=dt.UTC) + dt.timedelta(minutes=batch - 1)


def row(batch, table="", **values):
    names = {"schema_name": "shop", "table_name": table} if table else {"schema_name": None, "table_name": None}
    return {"pipeline": "shop", "batch_id": batch, "recorded_at": at(batch), **names, **values}


def tso(batch, seconds=2.0):
    return int((at(batch).timestamp() - seconds) * 1000) << 18


def result(batch, table, rule, severity="warn", **values):
    defaults = {"engine": "compiled", "evaluated": 90, "unexpected": 0, "success": True, "sample": None}
    return row(batch, table, rule=rule, severity=severity, fingerprint="f", snapshot_id=1, **{**defaults, **values})


def aside(batch, table, rules, key, **values):
    defaults = {
        "topic": f"shop_{table}" if table else "shop_lost", "kafka_partition": 0, "offset": batch * 10 + (key or 0),
        "index": 0, "code": "QUARANTINED", "message": f"breaks {', '.join(rules or ())}", "rules": rules,
        "fingerprint": "f",
        "commit_ts": tso(batch), "key_values": None if key is None else json.dumps({"id": str(key)}), "status": "open",
    }  # fmt: skip
    return row(batch, table, **{**defaults, **values})


def batch(number, **values):
    inserts, updates, deletes = between(250, 420, number), between(60, 150, number, 1), between(0, 25, number, 2)
    defaults = {
        "query_id": f"shop/{number}", "rows_in": inserts + updates + deletes, "inserts": inserts, "updates": updates,
        "deletes": deletes, "quarantined": 0, "dead_letters": 0, "seconds": between(70, 160, number, 3) / 100,
        "level": "bounded", "committed": True,
    }  # fmt: skip
    return {**row(number), **defaults, **values}


def quiet():
    """Nothing is wrong: 40 batches, 4 tables, cuts, a schema change."""
    results, cuts = [], []
    for number in range(FIRST, LAST + 1):
        for table, checks in CHECKS.items():
            rows = between(SIZES[table] // 2, SIZES[table], number, table)
            results += [
                result(number, table, rule, severity, evaluated=rows - 4 * rule.startswith("p"),
                       sample=json.dumps({"not_checked": 4}) if rule.startswith("p") else None)
                for rule, severity in checks
            ]  # fmt: skip
            cuts.append(
                row(number, table, cut_ts=tso(number), cut_time=at(number) - dt.timedelta(seconds=2), table_uuid=table,
                    snapshot_id=number, level="bounded", reason="changes are ordered by offset")
            )  # fmt: skip
    return {
        "batches": [batch(number) for number in range(FIRST, LAST + 1)],
        "quality_results": results,
        "cuts": cuts,
        "tables": [
            row(LAST, table, warehouse_name=f"shop.{table}", state="live", held_reason="") for table in sorted(SIZES)
        ],
        "quarantine": [], "dead_letters": [], "held": [], "ddl_history": _statements(), "schemas": _versions(),
    }  # fmt: skip


def _statements():
    sql = "ALTER TABLE `shop`.`orders` ADD COLUMN `channel` VARCHAR(20) DEFAULT 'web'"
    create = "CREATE TABLE `shop`.`customers` (`id` BIGINT PRIMARY KEY, `email` VARCHAR(200))"
    shared = {"action": "done", "status": "applied"}
    return [
        row(101, "customers", commit_ts=tso(100), ddl_type="CreateTable", sql=create, **shared),
        row(117, "orders", commit_ts=tso(117), ddl_type="AddColumn", sql=sql, **shared),
    ]


def _versions():
    old = [
        {"name": "id", "type": "bigint", "tidb_type": "BIGINT"},
        {"name": "total", "type": "int", "tidb_type": "INT"},
    ]
    new = [
        old[0],
        {"name": "total", "type": "bigint", "tidb_type": "BIGINT"},
        {"name": "channel", "type": "string", "tidb_type": "TEXT"},
    ]
    return [
        row(101, "orders", version=11, columns=json.dumps(old)),
        row(117, "orders", version=12, columns=json.dumps(new)),
    ]


def warned(rows=None):
    """Some e-mail addresses are none, one of them is an attack; an older warning is over."""
    rows = rows or quiet()
    seen = {"rows": [{"at": ["shop_customers", 1, 4711], "key": {"id": "77"}, "values": {"email": HOSTILE}},
                     {"at": ["shop_customers", 0, 4803], "key": {"id": "81"}, "values": {"email": "nobody"}}],
            "because": "invoices go to this address", "owner": "crm@shop.example"}  # fmt: skip
    for one in rows["quality_results"]:
        if one["rule"] == "email looks right" and one["batch_id"] >= EMAIL_AT:
            one.update(success=False, unexpected=2, sample=json.dumps(seen))
        if one["rule"] == "paid_matches_total" and 110 <= one["batch_id"] <= 113:
            one.update(success=False, unexpected=7, sample="{not json")
    return rows


def set_aside(rows=None):
    """Negative totals are quarantined, changes of the same keys wait; some messages are unreadable."""
    rows = rows or quiet()
    seen = {"rows": [{"at": ["shop_orders", 0, 91_204], "key": {"id": "5"}, "values": {"total": "-5.00"}},
                     {"at": ["shop_orders", 2, 88_017], "key": {"id": "9"}, "values": {"total": "-120.50"}}],
            "because": "refunds are rows of their own", "owner": "orders team"}  # fmt: skip
    for one in rows["quality_results"]:
        if one["rule"] == "total_not_negative" and one["batch_id"] in {NEGATIVE_AT, 129, 134, 135, 136, 139, 140}:
            one.update(success=False, unexpected=2, sample=json.dumps(seen))
            rows["quarantine"] += [
                aside(one["batch_id"], "orders", ["total_not_negative"], one["batch_id"] * 2 + n) for n in (0, 1)
            ]
    rows["quarantine"] += [
        aside(138, "orders", [], NEGATIVE_AT * 2, code="FENCED", message="an older change of this key is quarantined"),
        aside(140, "orders", [], NEGATIVE_AT * 2, code="FENCED", message="an older change of this key is quarantined"),
        aside(120, "orders", ["total_not_negative"], 1, status="redriven"),
    ]
    unread = {"code": "NOT_CONFLUENT", "message": f"the message does not begin with 00 {HOSTILE}"}
    rows["dead_letters"] += [aside(b, "", None, None, **unread) for b in (122, 122, 126)]
    rows["dead_letters"].append(aside(130, "customers", None, 3, **{**unread, "code": "AVRO_VALUE_UNREADABLE"}))
    for one in rows["batches"]:
        one["quarantined"] = sum(q["batch_id"] == one["batch_id"] for q in rows["quarantine"])
        one["dead_letters"] = sum(q["batch_id"] == one["batch_id"] for q in rows["dead_letters"])
    return rows


def held(rows=None):
    """Payments wait, since too many of them were insane at once."""
    rows = rows or quiet()
    kept = []
    for one in rows["quality_results"]:
        if one["table_name"] != "payments" or one["batch_id"] <= HELD_AT:
            kept.append(one)
        if one["rule"] == "amount_is_sane" and one["batch_id"] == HELD_AT:
            one.update(
                success=False,
                unexpected=41,
                sample=json.dumps({"because": "an exchange rate was wrong once", "owner": "finance"}),
            )
    rows["quality_results"] = kept
    rows["cuts"] = [one for one in rows["cuts"] if one["table_name"] != "payments" or one["batch_id"] < HELD_AT]
    for one in rows["cuts"]:
        if one["batch_id"] >= HELD_AT:
            one.update(level="partial", reason="held: shop.payments")
    reason = "QUALITY_HOLD: 41 of 66 rows break amount_is_sane"
    rows["tables"][-1].update(state="held", held_reason=reason)
    rows["held"] = [
        row(b, "payments", reason=reason, status="open") for b in range(HELD_AT, LAST + 1) for _ in range(60)
    ]
    return rows


def stopped(rows=None):
    """Batch 141 was refused: it would have written an order without a customer."""
    rows = rows or quiet()
    sample = {"observed": "3 orders of customers that do not exist", "because": "revenue is counted by customer"}
    rows["quality_results"].append(
        result(
            LAST + 1,
            "orders",
            "customer_exists",
            "fail",
            engine="gx",
            evaluated=88,
            unexpected=3,
            success=False,
            sample=json.dumps(sample),
        )
    )
    return rows


def busy():
    """All of it at once, but for the stop."""
    return held(set_aside(warned()))
