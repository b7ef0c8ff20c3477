"""A real Kafka broker and a real schema registry on this machine."""

from pipeline.devstack.broker import Broker
from pipeline.devstack.registry import RegistryService
from pipeline.devstack.stack import Devstack

__all__ = ["Broker", "Devstack", "RegistryService"]
