"""What a TiCDC changefeed keeps in a Confluent schema registry, and how to read it.

Knows nothing of pipelines or Spark.
"""

from registry.client import RegisteredSchema, RegistryClient, RegistryConfig
from registry.columns import AvroColumn, TicdcSchema, read_schema
from registry.compatibility import Change, Verdict, compare
from registry.errors import (
    AuthenticationRefused,
    InvalidConfig,
    NotARegistry,
    NotATicdcSchema,
    NoWireHeader,
    RegistryError,
    RegistryUnreachable,
    RequestRefused,
    SchemaNotFound,
    SubjectNotFound,
)
from registry.subjects import Subjects, sanitise, subjects_of
from registry.wire import Header, SchemaId, join, split

__all__ = [
    "AuthenticationRefused",
    "AvroColumn",
    "Change",
    "Header",
    "InvalidConfig",
    "NoWireHeader",
    "NotARegistry",
    "NotATicdcSchema",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryConfig",
    "RegistryError",
    "RegistryUnreachable",
    "RequestRefused",
    "SchemaId",
    "SchemaNotFound",
    "SubjectNotFound",
    "Subjects",
    "TicdcSchema",
    "Verdict",
    "compare",
    "join",
    "read_schema",
    "sanitise",
    "split",
    "subjects_of",
]
