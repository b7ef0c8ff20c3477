"""The configuration of the session that all tests of a process share."""

from pipeline.settings import parse

SETTINGS = """
name: spark-tests
source: {{kind: kafka, protocol: avro, bootstrap_servers: "localhost:1", topics: [none]}}
registry: {{url: "http://localhost:1"}}
warehouse: {{path: {folder}/warehouse}}
checkpoint: {folder}/checkpoint
"""


def settings_in(folder):
    """A configuration whose warehouse is below `folder`, and which reads nothing."""
    return parse(SETTINGS.format(folder=folder), folder / "ticdc-warehouse.yaml")
