"""Certificates for devices that no public authority knows, and the TLS contexts that use them.

A folder holds a private authority and what it has signed: one certificate for workers, one for
clients. The authority's own key is needed only to sign more; keep it off the devices.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from axon.errors import ConfigurationError
from axon.rpc.security.keys import write_private

if TYPE_CHECKING:
    # Late everywhere below as well: only who makes certificates pays for `cryptography`; the
    # contexts need no more than the standard library.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

Folder: TypeAlias = str | os.PathLike[str]
DEFAULT_DAYS = 825
"""The longest validity that phones and browsers accept of a private authority."""
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_HOST_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the parts lie; a worker needs `ca` and `worker*`, a client `ca` and `client*`."""

    ca: Path
    ca_key: Path
    worker: Path
    worker_key: Path
    client: Path
    client_key: Path

    @classmethod
    def within(cls, directory: Folder) -> TlsFiles:
        """The names in a folder, whether or not the files exist."""
        folder = Path(directory).expanduser()
        return cls(*(folder / f"{part.name.replace('_', '-')}.pem" for part in fields(cls)))

    def existing(self) -> list[Path]:
        """Those that are there."""
        paths = [getattr(self, part.name) for part in fields(self)]
        return [path for path in paths if path.exists()]


@dataclass(frozen=True, slots=True)
class _Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def make_material(
    directory: Folder, *, hosts: Sequence[str], days: int = DEFAULT_DAYS, overwrite: bool = False
) -> TlsFiles:
    """Make an authority, a worker's and a client's certificate, with their keys, in a folder.

    `hosts` are the names and IP addresses that clients will know the worker by, besides those
    of the machine itself. Raises `ConfigurationError` if files exist that may not be replaced.
    """
    files = TlsFiles.within(directory)
    if not overwrite and (existing := files.existing()):
        names = ", ".join(path.name for path in existing)
        raise ConfigurationError(
            f"{files.ca.parent} already holds {names}", hint="choose another folder"
        )
    if days < 1:
        raise ConfigurationError(f"a certificate must be valid for at least 1 day, got {days}")
    names_of_worker = [_general_name(host) for host in dict.fromkeys((*_LOCAL_HOSTS, *hosts))]
    authority = _authority(days)
    worker = _signed("Axon worker", authority, days, names_of_worker)
    client = _signed("Axon client", authority, days, None)
    try:
        files.ca.parent.mkdir(parents=True, exist_ok=True)
        _write(authority, files.ca, files.ca_key)
        _write(worker, files.worker, files.worker_key)
        _write(client, files.client, files.client_key)
    except OSError as error:
        raise ConfigurationError(f"cannot write {error.filename}: {error.strerror}") from error
    return files


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        # A zone such as %eth0 means something on one machine only and has no place in a name.
        return x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        # A name that ends in a number is a mistyped address.
        if _HOST_NAME.fullmatch(host) and not host.rpartition(".")[2].isdigit():
            return x509.DNSName(host)
    raise ConfigurationError(
        f"{host!r} is neither a host name nor an IP address", hint="give it without scheme and port"
    )


def _authority(days: int) -> _Issued:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    # A random part keeps two authorities apart in a list of trusted ones.
    name = _name(f"Axon authority {os.urandom(4).hex()}")
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _Issued(builder.sign(key, hashes.SHA256()), key)


def _signed(
    title: str, authority: _Issued, days: int, names: Sequence[x509.GeneralName] | None
) -> _Issued:
    """A certificate for a worker known by `names`, or for a client if there are none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if names is None else ExtendedKeyUsageOID.SERVER_AUTH
    builder = (
        _builder(_name(title), authority.certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _Issued(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """What every certificate has."""
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A day back, because small devices are often some hours behind until they reach a server.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(title: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(issued: _Issued, certificate: Path, key: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    write_private(key, issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_private(certificate, issued.certificate.public_bytes(Encoding.PEM))
    certificate.chmod(0o644)


def worker_context(directory: Folder, *, mutual: bool) -> ssl.SSLContext:
    """What a worker serves TLS with; `mutual` takes only clients with a certificate of the folder.

    Raises `ConfigurationError` when a file is missing or unusable.
    """
    files = TlsFiles.within(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _present(context, files.worker, files.worker_key)
    if mutual:
        _trust(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(directory: Folder | None = None) -> ssl.SSLContext:
    """What a client opens TLS with; the worker's name is always checked.

    With a folder, its authority alone is trusted and its client certificate, if there, presented.
    Without one, the authorities that this machine trusts decide. Raises `ConfigurationError` when a
    file is missing or unusable.
    """
    if directory is None:
        return ssl.create_default_context()
    files = TlsFiles.within(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _trust(context, files.ca)
    if files.client.exists() or files.client_key.exists():
        _present(context, files.client, files.client_key)
    return context


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    _require(authority)
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"{authority} is no certificate that can be trusted: {_why(error)}",
            hint="copy ca.pem again from where `axon keys new` made it",
        ) from error


def _present(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _require(certificate)
    _require(key)
    try:
        # An empty password, because OpenSSL would otherwise stop to ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"{certificate.name} and {key.name} in {key.parent} cannot be used: {_why(error)}",
            hint="both must come from one run of `axon keys new`, without a password",
        ) from error


def _require(path: Path) -> None:
    if not path.is_file():
        raise ConfigurationError(
            f"no file {path}",
            hint="make the TLS files with `axon keys new`, or copy them from where they were made",
        )


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).lower().replace("_", " ")
