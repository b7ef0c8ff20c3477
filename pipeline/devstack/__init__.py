"""A real Kafka broker and a real schema registry on this machine, and every jar that is needed."""

from pipeline.devstack.artefacts import fetch, jars, lacking, registry_home
from pipeline.devstack.broker import Broker
from pipeline.devstack.java import Java, find_java
from pipeline.devstack.registry import RegistryService
from pipeline.devstack.stack import Devstack

__all__ = ["Broker", "Devstack", "Java", "RegistryService", "fetch", "find_java", "jars", "lacking", "registry_home"]
