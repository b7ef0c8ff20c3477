#!/usr/bin/env bash
# The changefeed from TiDB to Kafka, unless there is one. What TiCDC says decides: it answers before it has an owner,
# with errors of its own that say nothing about changefeeds.
set -euo pipefail
server=http://ticdc:8300
feed() {
  local verb=$1
  shift
  "${CDC:-/cdc}" cli changefeed "$verb" --server="$server" --changefeed-id=warehouse "$@" 2>&1
}
create() {
  feed create --config=/etc/ticdc-warehouse/changefeed.toml \
    --sink-uri='kafka://kafka:9092/cdc_changes?protocol=simple&partition-num=2&replication-factor=1'
}

for _ in $(seq 60); do
  if told=$(feed query); then
    state=$(grep -o '"state": *"[a-z]*"' <<<"$told" | head -1 | cut -d '"' -f 4 || true)
    case $state in
      normal)
        echo "the changefeed is there, and works"
        exit 0 ;;
      stopped | failed | finished | removed)
        echo "$told"
        echo "the changefeed is there and does not work: $state. When the reason is gone: cdc cli changefeed resume" >&2
        exit 1 ;;
    esac
  elif [[ $told == *ErrChangeFeedNotExists* ]]; then
    told=$(create) || true # what has become of it is asked again
  fi
  echo "$told"
  sleep 2
done
echo "no changefeed after two minutes; what was said last stands above" >&2
exit 1
