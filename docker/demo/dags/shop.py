"""The live shop's changefeed, every five minutes."""

from datetime import timedelta

from pipeline.airflow import Local, changefeed_dag

dag = changefeed_dag(
    "demo",
    "/etc/ticdc-warehouse/ticdc-warehouse.yaml",
    Local("/opt/ticdc-warehouse/venv/bin/ticdc-warehouse"),
    schedule=timedelta(minutes=5),
    report="/report/index.html",
)
