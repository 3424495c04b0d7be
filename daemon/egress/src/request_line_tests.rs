use super::{FirstLine::*, *};

#[test]
fn a_first_line_with_a_version_is_a_request_however_it_is_written() {
    for line in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"GET / HTTP/1.0\n",
        b"GET / HTTP/",
        b"\r\n\r\nGET / HTTP/1.1\r\n",
        b" \t\r\nGET / HTTP/1.1\r\n",
        b"get / http/1.1\r\n",
        b"X-OWN~! http://a.test/ HTTP/9\r\n",
        b"GET\t/\tHTTP/1.1\r\n",
        b"GET\x0b/\x0cHTTP/1.1\r\n",
        b"GET / HTTP/1.1\rHost: a.test\r",
        b"GET  /a b  HTTP/1.1 more\r\n",
        b"GET /\xff HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert_eq!(read_first_line(line), Request, "{}", line.escape_ascii());
    }
}

#[test]
fn lines_of_other_protocols_are_not_requests() {
    for line in [
        &b"SSH-2.0-OpenSSH_9.9\r\n"[..],
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
        b"AMQP\x00\x00\x09\x01",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"EHLO client.test\r\n",
        b"0032git-upload-pack /project\0host=git.test\0",
        b"{\"method\": \"HTTP/1.1\"}",
        b"GET /HTTP/1.1\n",
        b"HTTP/1.1 GET /\n",
        b"HTTP/1.1\n",
        b"get key\r\nGET / HTTP/1.1\r\n",
        b"OPTIONS rtsp://a.test RTSP/1.0\r\n",
        b"a b\0 HTTP/1.1",
    ] {
        assert_eq!(read_first_line(line), Other, "{}", line.escape_ascii());
    }
    for line in [&b""[..], b"\r\n", b"G", b"GET", b"GET /", b"GET / HTTP", b"ruok"] {
        assert_eq!(read_first_line(line), Partial, "{}", line.escape_ascii());
    }
}

#[test]
fn a_preface_is_known_from_its_first_bytes() {
    assert!(is_second(b"PRI * HTTP/") && is_second(b"PRI * HTTP/2.0\r\n"));
    assert!(!is_second(b"") && !is_second(b"GET / HTTP/2.0"));
}
