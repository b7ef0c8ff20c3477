#!/bin/sh
# The compose demo: take what the changefeed has sent, then show tables, batches, quality, and write the report.
set -e
ticdc-warehouse --log-format text run --available-now
echo; ticdc-warehouse tables list
echo; ticdc-warehouse quarantine list
ticdc-warehouse report --to /report/index.html
echo; echo "the report: http://127.0.0.1:${REPORT_PORT:-8088}/"
