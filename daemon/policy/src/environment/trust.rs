//! The variables by which programs find the certificates that a session with inspected hosts trusts.
//! Pure: no I/O.

/// The variables. The file has the host's certificates too, because most of them replace these.
pub(super) const VARIABLES: [&str; 7] = [
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];
