#!/bin/sh
# The product on a Spark cluster: what follows are the words behind `ticdc-warehouse`.
set -e
ticdc-warehouse config spark-submit > /tmp/spark.properties
exec spark-submit --properties-file /tmp/spark.properties --conf "spark.driver.host=$(hostname)" \
  "$(python -c 'import importlib.util as u; print(u.find_spec("pipeline.__main__").origin)')" "$@"
