#!/usr/bin/env bash
# The changefeed from TiDB to Kafka, unless there is one.
set -euo pipefail
server=http://ticdc:8300
if /cdc cli changefeed query --server="$server" --changefeed-id=warehouse >/dev/null 2>&1; then
  echo "the changefeed is there"
  exit 0
fi
/cdc cli changefeed create --server="$server" --changefeed-id=warehouse --config=/etc/ticdc-warehouse/changefeed.toml \
  --sink-uri='kafka://kafka:9092/cdc_changes?protocol=simple&partition-num=2&replication-factor=1'
