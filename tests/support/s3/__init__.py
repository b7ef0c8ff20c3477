"""A server of S3's API for tests: S3Proxy over a folder, in a Java of its own."""

from support.s3.server import S3Server, TamperedStore, s3_server

__all__ = ["S3Server", "TamperedStore", "s3_server"]
