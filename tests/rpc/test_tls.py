"""Certificates made here, tried in real handshakes held in memory."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from axon.errors import ConfigurationError
from axon.rpc.security.tls import TlsFiles, client_context, make_material, worker_context


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls") / "made"
    make_material(made, hosts=["pi.local", "10.0.0.3", "fe80::7%eth0"])
    return made


def handshake(client: ssl.SSLContext, worker: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Shake hands and pass one byte each way, as a refused certificate may show only then."""
    to_worker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_worker, server_hostname=host)
    far = worker.wrap_bio(to_worker, to_client, server_side=True)
    for end in (near, far) * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    near.write(b"x")
    assert far.read(1) == b"x"
    far.write(b"y")
    assert near.read(1) == b"y"
    return far


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "::1", "pi.local", "10.0.0.3", "fe80::7"]
)
@pytest.mark.parametrize("mutual", [False, True])
def test_the_worker_is_trusted_by_each_of_its_names(folder: Path, host: str, mutual: bool) -> None:
    far = handshake(client_context(folder), worker_context(folder, mutual=mutual), host)
    assert far.version() in ("TLSv1.2", "TLSv1.3")
    assert bool(far.getpeercert()) is mutual


@pytest.mark.parametrize("host", ["other.local", "10.0.0.4"])
def test_another_name_is_refused(folder: Path, host: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(client_context(folder), worker_context(folder, mutual=False), host)


def test_a_worker_of_another_authority_is_refused(folder: Path, tmp_path: Path) -> None:
    make_material(tmp_path, hosts=[])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(tmp_path), worker_context(folder, mutual=False), "localhost")


def test_the_machines_own_authorities_do_not_know_the_worker(folder: Path) -> None:
    context = client_context()
    assert context.check_hostname
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, worker_context(folder, mutual=False), "localhost")


def only_the_authority(folder: Path, target: Path) -> Path:
    (target / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    return target


def test_mutual_refuses_a_client_without_certificate(folder: Path, tmp_path: Path) -> None:
    bare = client_context(only_the_authority(folder, tmp_path))
    handshake(bare, worker_context(folder, mutual=False), "localhost")
    with pytest.raises(ssl.SSLError, match=r"(?i)peer.did.not.return.a.certificate"):
        handshake(bare, worker_context(folder, mutual=True), "localhost")


def test_mutual_refuses_a_client_of_another_authority(folder: Path, tmp_path: Path) -> None:
    make_material(tmp_path, hosts=[])
    only_the_authority(folder, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(tmp_path), worker_context(folder, mutual=True), "localhost")


def test_a_clients_certificate_cannot_stand_in_for_a_workers(folder: Path, tmp_path: Path) -> None:
    files, stolen = TlsFiles.within(folder), TlsFiles.within(tmp_path)
    only_the_authority(folder, tmp_path)
    stolen.worker.write_bytes(files.client.read_bytes())
    stolen.worker_key.write_bytes(files.client_key.read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(folder), worker_context(tmp_path, mutual=False), "localhost")


def test_old_protocols_are_off(folder: Path) -> None:
    for context in (client_context(folder), worker_context(folder, mutual=True)):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_strict_verification_accepts_the_certificates(folder: Path) -> None:
    client, worker = client_context(folder), worker_context(folder, mutual=True)
    for context in (client, worker):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    handshake(client, worker, "localhost")


def test_private_files_are_the_owners_alone(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {
        "ca.pem": 0o644,
        "ca-key.pem": 0o600,
        "worker.pem": 0o644,
        "worker-key.pem": 0o600,
        "client.pem": 0o644,
        "client-key.pem": 0o600,
    }


def test_validity_starts_a_day_back_and_lasts_as_asked(tmp_path: Path) -> None:
    from cryptography import x509

    files = make_material(tmp_path, hosts=[], days=10)
    for path in (files.ca, files.worker, files.client):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lasts.days == 11


def test_existing_files_are_not_replaced_unless_told(tmp_path: Path) -> None:
    files = TlsFiles.within(tmp_path)
    files.client_key.write_text("mine")
    with pytest.raises(ConfigurationError, match=r"already holds client-key\.pem"):
        make_material(tmp_path, hosts=[])
    assert [path.name for path in tmp_path.iterdir()] == ["client-key.pem"]
    make_material(tmp_path, hosts=[], overwrite=True)
    assert files.client_key.read_text() != "mine"
    assert len(files.existing()) == 6


@pytest.mark.parametrize("host", ["10.0.0.3:8000", "http://pi", "", "a b", "10.0.0.300", "größe"])
def test_what_is_no_host_is_refused_before_anything_is_written(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="neither a host name nor an IP address"):
        make_material(tmp_path, hosts=[host])
    assert not list(tmp_path.iterdir())


def test_no_days_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least 1 day, got 0"):
        make_material(tmp_path, hosts=[], days=0)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        make_material(tmp_path / "file" / "folder", hosts=[])


@pytest.mark.parametrize("name", ["worker.pem", "worker-key.pem", "ca.pem"])
def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    make_material(tmp_path, hosts=[])
    (tmp_path / name).unlink()
    with pytest.raises(ConfigurationError, match=f"no file .*{name} .*axon keys new"):
        worker_context(tmp_path, mutual=True)


def test_half_a_client_certificate_is_an_error_not_a_silent_stranger(tmp_path: Path) -> None:
    make_material(tmp_path, hosts=[])
    (tmp_path / "client-key.pem").unlink()
    with pytest.raises(ConfigurationError, match=r"no file .*client-key\.pem"):
        client_context(tmp_path)


def test_files_that_do_not_belong_together_or_are_garbage(folder: Path, tmp_path: Path) -> None:
    files, others = TlsFiles.within(tmp_path), TlsFiles.within(folder)
    make_material(tmp_path, hosts=[])
    files.worker_key.write_bytes(others.worker_key.read_bytes())
    with pytest.raises(ConfigurationError, match="key values mismatch"):
        worker_context(tmp_path, mutual=False)
    files.ca.write_text("garbage")
    with pytest.raises(ConfigurationError, match=r"ca\.pem is no certificate"):
        client_context(tmp_path)


def test_an_encrypted_key_is_an_error_and_never_a_prompt(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    files = make_material(tmp_path, hosts=[])
    key = serialization.load_pem_private_key(files.worker_key.read_bytes(), None)
    files.worker_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    with pytest.raises(ConfigurationError, match="without a password"):
        worker_context(tmp_path, mutual=False)
