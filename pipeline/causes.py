"""What stores, catalogs, Kafka and Spark say when something of theirs is not in order, as errors of ours.

Nothing here is about rows. It is what a set-up lacks: an error that ends a command is printed with a code, a sentence
and the setting to look at (`explained`), not with a class of Java's. A cause is found by Java's names of classes, which
are API, or by a text if the class says too little. Tests have the texts, as the libraries wrote them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.errors import EnvironmentFault, PipelineError
from pipeline.settings.redaction import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 300
_DEEPEST = 20
_CAUSED_BY = re.compile(r"^(?:Caused by: |)((?:[a-z_0-9]+\.)+\w+(?:Exception|Error)\b.*)", re.MULTILINE)
_OF_OURS = re.compile(
    rf"^{EnvironmentFault.__module__}\.{EnvironmentFault.__qualname__}: "
    r"(?P<code>[A-Z0-9_]+): (?P<message>.*)(?:\n  (?P<hint>.*))?",
    re.MULTILINE,
)
"""The end of a traceback of Python's."""
_CLASS = re.compile(r"^(?:[a-z_0-9]+\.)+(?=[\w$]+(?:: |$))")


@dataclass(frozen=True, slots=True)
class Cause:
    """A thing that may be wrong outside: how an error tells it, and what a person should hear."""

    told_by: re.Pattern[str]
    """Looked for in each error of a chain, which is written as Java does: `package.Class: message`."""
    code: str
    sentence: str
    hint: str


def _cause(told_by: str, code: str, sentence: str, hint: str) -> Cause:
    return Cause(re.compile(told_by), code, sentence, hint)


_AWS = r"software\.amazon\.awssdk\."
_ICEBERG = r"org\.apache\.iceberg\.exceptions\."
_REST = rf"{_ICEBERG}|pyiceberg\.exceptions\."
_KAFKA = r"org\.apache\.kafka\."
_JAR = "add the jar that has it to spark.jars in spark.conf, in the version that fits (docs/reference/configuration.md)"
_KAFKA_TLS = "look at kafka.security.protocol and kafka.ssl.… in source.options"
_STORE = "look at the store's properties in warehouse.catalog"

KAFKA_OPTIONS, KAFKA_UNREACHABLE, KAFKA_DENIED = "KAFKA_OPTIONS", "KAFKA_UNREACHABLE", "KAFKA_DENIED"

CAUSES = (
    # Kafka. Its client is made before anything is asked, so most of these come at the start.
    _cause(
        rf"{_KAFKA}common\.config\.ConfigException: No resolvable bootstrap urls",
        KAFKA_UNREACHABLE, "no host of source.bootstrap_servers can be resolved on this machine",
        "check the names in source.bootstrap_servers, and this machine's DNS",
    ),
    _cause(
        r"(?:No LoginModule found for|Class) software\.amazon\.msk\.",
        KAFKA_OPTIONS, "source.options name Amazon's class for MSK, which Java does not find",
        "it is in aws-msk-iam-auth-…-all.jar: add that jar to spark.jars in spark.conf",
    ),
    _cause(
        r"No LoginModule found for|Invalid value \S+ for configuration \S+: Class \S+ could not be found",
        KAFKA_OPTIONS, "source.options name a class that Java does not find", _JAR,
    ),
    _cause(
        rf"{_KAFKA}common\.\S+: Failed to load (?:PEM )?SSL",
        KAFKA_OPTIONS, "a certificate or key that source.options name is not there, or cannot be read",
        f"{_KAFKA_TLS}: the paths must be right on the driver and on each executor",
    ),
    _cause(
        r"unable to find valid certification path|PKIX path|No (?:subject alternative|name matching)|"
        rf"{_KAFKA}common\.errors\.SslAuthenticationException",
        "KAFKA_TLS", "this client does not accept Kafka's certificate, or that port does not speak TLS",
        "check kafka.ssl.truststore.… (the authority that signed Kafka's certificate), the host names in "
        "source.bootstrap_servers, and the port: a port for TLS needs kafka.security.protocol SSL or SASL_SSL",
    ),
    _cause(
        rf"{_KAFKA}common\.errors\.SaslAuthenticationException|javax\.security\.sasl\.SaslException",
        "KAFKA_NOT_AUTHENTICATED", "Kafka does not authenticate this user",
        "look at kafka.sasl.mechanism and kafka.sasl.jaas.config in source.options",
    ),
    _cause(
        rf"{_KAFKA}common\.errors\.\w+AuthorizationException",
        KAFKA_DENIED, "Kafka does not let this user do that",
        "grant READ and DESCRIBE on the topics, and READ on the groups that kafka.group.id or groupIdPrefix names",
    ),
    _cause(
        rf"{_KAFKA}common\.errors\.UnsupportedVersionException",
        "KAFKA_TOO_OLD", "this Kafka broker is too old for what a run asks of it", "use a newer broker",
    ),
    _cause(
        rf"{_KAFKA}common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable)Exception",
        KAFKA_UNREACHABLE, "Kafka does not answer",
        "check source.bootstrap_servers and source.options (kafka.security.protocol …), that the broker runs, and that "
        "this machine and each executor reach the addresses that it advertises",
    ),
    _cause(
        rf"{_KAFKA}common\.(?:config\.ConfigException|KafkaException)",
        KAFKA_OPTIONS, "Kafka's client cannot be created with these settings",
        "look at source.bootstrap_servers and source.options (kafka.security.protocol, kafka.ssl.…, kafka.sasl.…)",
    ),
    _cause(
        r"java\.util\.regex\.PatternSyntaxException",
        "REGEX_INVALID", "Java refuses a regular expression",
        "look at source.topic_pattern and at the suites: their regular expressions are Java's",
    ),
    # The store. Amazon's SDK says these of S3 and of Glue alike.
    _cause(
        r"Unable to load region|PermanentRedirect|AuthorizationHeaderMalformed|Status Code: 301\b|"
        r"the region '\S+' is wrong",
        "STORE_REGION", "the store's client has no region, or a wrong one",
        "set client.region in warehouse.catalog, or the environment variable AWS_REGION",
    ),
    _cause(
        r"Unable to load credentials|Unable to locate credentials|NoAuthWithAWSException|NoCredentialsError",
        "STORE_CREDENTIALS", "the store's client has no credentials",
        "set s3.access-key-id and s3.secret-access-key in warehouse.catalog, best from the environment; or what "
        "Amazon's clients look for automatically (AWS_ACCESS_KEY_ID, a profile, the machine's role)",
    ),
    _cause(
        r"NoSuchBucket|The specified bucket does not exist",
        "STORE_BUCKET_UNKNOWN", "the store has no such bucket",
        "look at the URL in warehouse.catalog.warehouse, at s3.endpoint and at s3.path-style-access",
    ),
    _cause(
        rf"(?:{_AWS}|Service: \w+, ).*Status Code: (?:401|403)\b|InvalidAccessKeyId|SignatureDoesNotMatch|"
        rf"{_AWS}\S*AccessDenied|Error when \w+ key \S+ .*ACCESS_DENIED",
        "STORE_DENIED", "the store does not let this user do that",
        "a run reads, writes, lists and deletes below warehouse.catalog.warehouse: look at the bucket's policy and at "
        "s3.access-key-id, s3.secret-access-key in warehouse.catalog",
    ),
    _cause(
        rf"{_AWS}\S*: Received an UnknownHostException|{_AWS}\S*: Unable to execute HTTP request",
        "STORE_UNREACHABLE", "the store does not answer",
        "look at s3.endpoint and client.region in warehouse.catalog; a store that has no host name for each bucket "
        'needs s3.path-style-access: "true"',
    ),
    _cause(
        r"No FileSystem for scheme",
        "STORE_CLASS_MISSING", "Hadoop does not know this kind of store",
        "set Iceberg's own class for it in warehouse.catalog: io-impl: org.apache.iceberg.aws.s3.S3FileIO (Amazon and "
        "compatible stores), …gcp.gcs.GCSFileIO, …azure.adlsv2.ADLSFileIO; and add its jar to spark.jars in spark.conf",
    ),
    _cause(
        r"(?:Cannot initialize FileIO|NoClassDefFoundError: software/amazon|ClassNotFoundException: software\.amazon|"
        r"NoClassDefFoundError: com/(?:google|azure))",
        "STORE_CLASS_MISSING", "Java does not find the classes that reach the store",
        "add iceberg-aws-bundle (or -gcp-, -azure-) to spark.jars in spark.conf, in the version of Iceberg's runtime "
        "(docs/reference/configuration.md#catalogs-and-stores)",
    ),
    _cause(
        rf"{_AWS}services\.glue\.",
        "CATALOG_REFUSES", "Glue refuses what was asked",
        "look at warehouse.catalog, and at what this user may do in Glue",
    ),
    _cause(
        rf"{_AWS}", "STORE_REFUSES", "the store refuses what was asked", f"{_STORE}; its log says more",
    ),
    # Catalogs.
    _cause(
        rf"(?:{_REST})(?:NotAuthorized|Unauthorized|OAuth)\w*|{_ICEBERG}RESTException: Unable to process \(code: 401",
        "CATALOG_NOT_AUTHORISED", "the catalog does not accept these credentials",
        "look at credential, token and oauth2-server-uri in warehouse.catalog",
    ),
    _cause(
        rf"(?:{_REST})Forbidden\w*|{_ICEBERG}RESTException: Unable to process \(code: 403",
        "CATALOG_FORBIDS", "the catalog forbids what was asked",
        "each table gets a place of its own below warehouse.catalog.warehouse: let the catalog allow that place (its "
        "storage configuration, allowed locations), and let this user create tables and namespaces",
    ),
    _cause(
        rf"{_ICEBERG}NoSuchWarehouseException|pyiceberg\.exceptions\.RESTError.*404|"
        rf"{_ICEBERG}RESTException: Unable to process \(code: (?:404|405)",
        "CATALOG_UNKNOWN", "there is no catalog at this URL, or it does not have this warehouse",
        "look at uri and warehouse in warehouse.catalog: a REST catalog's uri ends before /v1",
    ),
    _cause(
        rf"(?:{_REST})(?:ServiceUnavailable|ServiceFailure|Server)\w*|{_ICEBERG}RESTException: Error occurred|"
        r"requests\.exceptions\.(?:Connection|Timeout|SSL)|TTransportException|Failed to connect to Hive Metastore",
        "CATALOG_UNREACHABLE", "the catalog does not answer, or not as a catalog does",
        "look at uri in warehouse.catalog, and whether the catalog's server runs",
    ),
    _cause(
        rf"(?:{_REST})(?:BadRequest|Validation|Unprocessable)\w*|{_ICEBERG}RESTException|pyiceberg\.exceptions\.RESTError",
        "CATALOG_REFUSES", "the catalog refuses what was asked",
        "if the answer speaks of a location, let the catalog allow places below warehouse.catalog.warehouse; otherwise "
        "the catalog's log says more",
    ),
    _cause(
        r"No suitable driver found for jdbc",
        "CATALOG_CLASS_MISSING", "Java does not find the JDBC driver of the catalog's database",
        "add its jar to spark.jars in spark.conf (postgresql-42.….jar for PostgreSQL)",
    ),
    _cause(
        r"password authentication failed|no password was provided|Access denied for user|pg_hba\.conf|"
        r"no password supplied|The server requested \S+ authentication",
        "CATALOG_NOT_AUTHORISED", "the catalog's database does not accept this user",
        "look at jdbc.user and jdbc.password in warehouse.catalog",
    ),
    _cause(
        r"FATAL:\s+database .* does not exist",
        "CATALOG_UNKNOWN", "there is no such database", "make it, or look at uri in warehouse.catalog",
    ),
    _cause(
        r"org\.postgresql\.util\.PSQLException: (?:Connection to|The connection attempt failed)|"
        r"psycopg2?\.\S*OperationalError|sqlalchemy\.exc\.OperationalError|Communications link failure",
        "CATALOG_UNREACHABLE", "the catalog's database does not answer",
        "look at uri in warehouse.catalog, and whether the database runs and has that name",
    ),
    _cause(
        r"permission denied for (?:table|schema|relation|database)",
        "CATALOG_FORBIDS", "the catalog's database does not let this user do that",
        "let this user create and write the tables iceberg_tables and iceberg_namespace_properties",
    ),
    _cause(
        r"SQLITE_(?:CANTOPEN|READONLY|PERM|AUTH)|path to '.*' does not exist",
        "CATALOG_UNREACHABLE", "the catalog's file cannot be opened or written",
        "it lies in warehouse.path (or where warehouse.catalog.uri says): let this user write the folder",
    ),
    _cause(
        r"SQLITE_(?:NOTADB|CORRUPT)",
        "CATALOG_DAMAGED", "the catalog's file is not a database, or is damaged",
        "put a copy back; or move the file away and run ticdc-warehouse tables restore, which finds the tables that "
        "lie in the warehouse",
    ),
    _cause(
        r"SQLITE_(?:BUSY|LOCKED)",
        "CATALOG_BUSY", "another process has kept the catalog's file locked for a minute",
        "find out which processes have it open; a copy or a backup must not hold it",
    ),
    _cause(
        r"Cannot initialize Catalog|NoClassDefFoundError: org/apache/(?:hadoop/hive|iceberg)|"
        r"ClassNotFoundException: org\.apache\.(?:hadoop\.hive|iceberg)",
        "CATALOG_CLASS_MISSING", "Java does not find the classes of this kind of catalog", _JAR,
    ),
    # Spark and the machine.
    _cause(
        r"No space left on device|Disk quota exceeded",
        "DISK_FULL", "a disk is full",
        "make room for warehouse.path, and for Spark's own files (spark.local.dir in spark.conf); what was "
        "committed stays",
    ),
    _cause(
        r"Could not parse Master URL",
        "SPARK_MASTER", "Spark does not know this kind of master", "look at spark.master",
    ),
    _cause(
        r"All masters are unresponsive|Failed to connect to master|Invalid master URL",
        "SPARK_MASTER", "Spark's master does not answer", "look at spark.master, and whether it runs",
    ),
    _cause(
        r"Service '\w+' (?:failed after|could not bind)|java\.net\.BindException",
        "SPARK_ADDRESS", "Spark cannot listen at this machine's address",
        "set spark.driver.host and spark.driver.bindAddress in spark.conf, or SPARK_LOCAL_IP",
    ),
)  # fmt: skip


def explained(error: BaseException) -> PipelineError | None:
    """Give the cause of an error as an error of ours; None if the cause is not listed here.

    An error of ours that an executor raised comes back as text, and wins. Else the cause that is listed first does,
    whatever its depth: Spark wraps a store's refusal in errors of its own.
    """
    lines = [line for line in chain(error) if line]
    for line in lines:
        if ours := _OF_OURS.search(line):
            return EnvironmentFault(ours["code"], clean(ours["message"]), clean(ours["hint"] or ""))
    for cause in CAUSES:
        for line in reversed(lines):
            if match := cause.told_by.search(line):
                words = " ".join(dict.fromkeys((_said(line, match.start()), _deepest(lines[-1], line))))
                return EnvironmentFault(cause.code, f"{cause.sentence}: {words.strip()}", cause.hint)
    return None


def chain(error: BaseException) -> list[str]:
    """Every error of a chain as `Class: message`, the outermost first: Python's errors and the Java errors in them."""
    lines: list[str] = []
    here: BaseException | None = error
    while here is not None and len(lines) < _DEEPEST:
        lines += _lines(here)
        here = here.__cause__ or (None if here.__suppress_context__ else here.__context__)
    return lines


def _lines(error: BaseException) -> Iterator[str]:
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is not None:
        try:
            yield from _java_lines(java)
        except Exception:  # noqa: BLE001 - the JVM is gone: then what Python has is all there is
            yield type(error).__name__
        return
    trace = getattr(error, "_stackTrace", None)
    if isinstance(trace, str):  # PySpark has made it out of Java's, and kept the text
        yield from (match[1] for match in _CAUSED_BY.finditer(f"{getattr(error, '_desc', '')}\n{trace}"))
        return
    yield f"{type(error).__module__}.{type(error).__qualname__}: {error}"


def _java_lines(error: Any) -> Iterator[str]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield str(error.toString())
        error = error.getCause()


def _deepest(last: str, line: str) -> str:
    """The deepest error in parentheses, if it says more than the line that names the cause."""
    words = _said(last, 0)
    return f"({words})" if last != line and words.rpartition(": ")[2] not in line else ""


def _said(line: str, start: int) -> str:
    """Give an error's own words without the package of its class: the line of its text that has the cause."""
    begin = line.rfind("\n", 0, start) + 1 if start >= LONGEST else 0
    words = clean(_CLASS.sub("", (line[begin:].strip().splitlines() or [""])[0]))
    return words if len(words) <= LONGEST else words[:LONGEST] + "…"
