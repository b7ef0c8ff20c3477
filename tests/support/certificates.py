"""Certificates for tests of TLS: an authority's, and what it has signed for 127.0.0.1."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path) -> Path:
    """The folder with `ca.pem`, and `.pem` and `.key` of a `server` and a `client`."""
    authority_key, authority = _certificate("authority", None, None)
    for who in ("server", "client"):
        key, signed = _certificate(who, authority_key, authority)
        (folder / f"{who}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (folder / f"{who}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return folder


def of_server(folder: Path) -> ssl.SSLContext:
    """What the server shows to who connects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def _certificate(who: str, issuer_key: Any, issuer: x509.Certificate | None) -> tuple[Any, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, who)])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(names, critical=False)
    )
    return key, builder.sign(issuer_key or key, hashes.SHA256())
