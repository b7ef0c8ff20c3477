"""The smallest configuration there is, of a broker and a registry that nobody asks."""

SMALL = """\
name: shop
source: {kind: kafka, protocol: avro, bootstrap_servers: "localhost:9", topics: [t]}
registry: {url: "http://localhost:9"}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""
