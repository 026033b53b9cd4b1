"""A certificate that names a workload by a URI, which trustme does not make: it makes those of hosts and people."""

import datetime

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID


def of_uri(authority: trustme.CA, uri: str) -> trustme.LeafCert:
    """Signed by that authority; without a common name."""
    signing = serialization.load_pem_private_key(authority.private_key_pem.bytes(), password=None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .sign(signing, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return trustme.LeafCert(pem, made.public_bytes(serialization.Encoding.PEM), [])
