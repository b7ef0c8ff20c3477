"""Airflow 3: a DAG for each changefeed. Needs Airflow alone, none of this package's dependencies.

# dags/shop.py
from pipeline.airflow import Local, changefeed_dag

dag = changefeed_dag("shop", "/etc/ticdc-warehouse/shop.yaml", Local("/opt/ticdc-warehouse/bin/ticdc-warehouse"))
"""

from pipeline.airflow.dag import changefeed_dag, table_asset
from pipeline.airflow.execution import Docker, Execution, Local, SparkSubmit
from pipeline.airflow.operator import WarehouseOperator

__all__ = ["Docker", "Execution", "Local", "SparkSubmit", "WarehouseOperator", "changefeed_dag", "table_asset"]
