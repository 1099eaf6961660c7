"""Certificates: signed, chained documents of what runs have proved. docs/certificates.md has their format."""

from kafka_ferry.certificates.document import (
    Certificate,
    CertificateError,
    Header,
    read_certificate,
)
from kafka_ferry.certificates.topic import (
    append_certificate,
    certificate_topic,
    certificates_creation,
    put_back_certificates,
    stored_certificates,
)

__all__ = [
    "Certificate",
    "CertificateError",
    "Header",
    "append_certificate",
    "certificate_topic",
    "certificates_creation",
    "put_back_certificates",
    "read_certificate",
    "stored_certificates",
]
