"""The jars, pinned by checksum and fetched into a cache."""

from pipeline.runtime.jars.artefacts import fetch, jars, lacking, registry_home

__all__ = ["fetch", "jars", "lacking", "registry_home"]
