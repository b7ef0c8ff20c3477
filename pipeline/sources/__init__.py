"""Where raw frames come from: Kafka now, object storage later.

Other rooms use `source` (what a source is) and `build` (the source that the settings name). Begin with `source.Source`.
"""
