//! Reads the server name from the first bytes of a TLS connection: a ClientHello, whole or in
//! pieces, in one or several records. Nothing is allocated, and the caller bounds the bytes.

use crate::name::{NameError, read_host};
use palisade_egress_protocol::host::Host;

/// Most bytes of the records that hold a ClientHello. Those of today's clients have up to 2,000.
pub(crate) const MAX_HELLO: usize = 16 * 1024;

/// The content type of a record with a handshake message.
const HANDSHAKE: u8 = 22;
/// The most bytes of a record's content.
const MAX_RECORD: usize = 16 * 1024 + 256;
/// The size of a record's header: content type, version, length.
const RECORD_HEADER: usize = 5;
/// The type of the handshake message.
const CLIENT_HELLO: u8 = 1;
/// The extension for the server's name.
const SERVER_NAME: u16 = 0;
/// The kind of server name that is a host name.
const HOST_NAME: u8 = 0;

/// The meaning of the first bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// More bytes are needed.
    Partial,
    /// They are not TLS.
    Other,
    /// They are a whole ClientHello.
    Hello(ServerName),
    /// They begin like TLS and are not a ClientHello that can be read.
    Broken(&'static str),
}

/// The server name of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// It has none.
    Absent,
    /// It has this one.
    Host(Host),
    /// It has one that is not a host.
    Unreadable(NameError),
}

/// The reason why reading stopped.
enum Stop {
    /// The bytes end here.
    Partial,
    Broken(&'static str),
}

/// Reads the first bytes of a connection.
#[must_use]
pub(crate) fn read_first(bytes: &[u8]) -> FirstBytes {
    match bytes.first() {
        None => return FirstBytes::Partial,
        Some(&HANDSHAKE) => {}
        Some(_) => return FirstBytes::Other,
    }
    match read_hello(Handshake { bytes, left: 0 }) {
        Ok(name) => FirstBytes::Hello(name),
        Err(Stop::Broken(why)) => FirstBytes::Broken(why),
        Err(Stop::Partial) if bytes.len() >= MAX_HELLO => {
            FirstBytes::Broken("the ClientHello has more than 16 KiB")
        }
        Err(Stop::Partial) => FirstBytes::Partial,
    }
}

/// The content of handshake records, without their headers.
#[derive(Clone, Copy)]
struct Handshake<'a> {
    bytes: &'a [u8],
    /// The bytes that are left of the current record's content.
    left: usize,
}

impl Handshake<'_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        while self.left == 0 {
            let Some((header, rest)) = self.bytes.split_first_chunk::<RECORD_HEADER>() else {
                return Err(Stop::Partial);
            };
            let [kind, major, _, high, low] = *header;
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != HANDSHAKE || major != 3 {
                return Err(Stop::Broken("a record is not a handshake record of TLS"));
            }
            if length == 0 || length > MAX_RECORD {
                return Err(Stop::Broken("a record has an impossible length"));
            }
            (self.bytes, self.left) = (rest, length);
        }
        let (byte, rest) = self.bytes.split_first().ok_or(Stop::Partial)?;
        (self.bytes, self.left) = (rest, self.left - 1);
        Ok(*byte)
    }

    fn number(&mut self, bytes: u8) -> Result<usize, Stop> {
        (0..bytes).try_fold(0, |number, _| Ok(number << 8 | usize::from(self.byte()?)))
    }

    fn skip(&mut self, count: usize) -> Result<(), Stop> {
        (0..count).try_for_each(|_| self.byte().map(drop))
    }
}

/// A part of a handshake message with a length of its own.
struct Part {
    left: usize,
}

impl Part {
    /// Takes bytes from the part.
    fn take(&mut self, count: usize) -> Result<usize, Stop> {
        self.left = self.left.checked_sub(count).ok_or(Stop::Broken("a length is wrong"))?;
        Ok(count)
    }

    fn number(&mut self, from: &mut Handshake<'_>, bytes: u8) -> Result<usize, Stop> {
        self.take(usize::from(bytes))?;
        from.number(bytes)
    }

    /// Skips a vector whose length has this many bytes.
    fn skip_vector(&mut self, from: &mut Handshake<'_>, bytes: u8) -> Result<(), Stop> {
        let length = self.number(from, bytes)?;
        from.skip(self.take(length)?)
    }
}

fn read_hello(mut from: Handshake<'_>) -> Result<ServerName, Stop> {
    if from.byte()? != CLIENT_HELLO {
        return Err(Stop::Broken("the first message is not a ClientHello"));
    }
    let mut hello = Part { left: from.number(3)? };
    if hello.left > MAX_HELLO {
        return Err(Stop::Broken("the ClientHello has more than 16 KiB"));
    }
    // Nothing is decided before all of it is there: a name at its end counts, too.
    let mut rest = from;
    rest.skip(hello.left)?;
    if rest.left != 0 {
        return Err(Stop::Broken("data follows the ClientHello in its record"));
    }
    // Version and random bytes; then session, cipher suites and compression methods.
    from.skip(hello.take(2 + 32)?)?;
    hello.skip_vector(&mut from, 1)?;
    hello.skip_vector(&mut from, 2)?;
    hello.skip_vector(&mut from, 1)?;
    if hello.left == 0 {
        return Ok(ServerName::Absent);
    }
    let length = hello.number(&mut from, 2)?;
    if length != hello.left {
        return Err(Stop::Broken("a length is wrong"));
    }
    let mut found = None;
    while hello.left > 0 {
        let kind = hello.number(&mut from, 2)?;
        let length = hello.number(&mut from, 2)?;
        hello.take(length)?;
        if kind != usize::from(SERVER_NAME) {
            from.skip(length)?;
        } else if found.replace(read_names(&mut from, length)?).is_some() {
            return Err(Stop::Broken("there are two extensions for the server's name"));
        }
    }
    Ok(found.unwrap_or(ServerName::Absent))
}

/// Reads the extension for the server's name: a list with exactly one name.
fn read_names(from: &mut Handshake<'_>, length: usize) -> Result<ServerName, Stop> {
    let mut extension = Part { left: length };
    let list = extension.number(from, 2)?;
    if list != extension.left {
        return Err(Stop::Broken("a length is wrong"));
    }
    let kind = extension.number(from, 1)?;
    let length = extension.number(from, 2)?;
    if kind != usize::from(HOST_NAME) || length != extension.left {
        return Err(Stop::Broken("the server's name is not exactly one host name"));
    }
    let mut name = [0; 256];
    let Some(name) = name.get_mut(..length) else {
        return Err(Stop::Broken("the server's name is too long"));
    };
    for byte in name.iter_mut() {
        *byte = from.byte()?;
    }
    // Names in a ClientHello are ASCII.
    Ok(match read_host(name) {
        Ok(host) => ServerName::Host(host),
        Err(error) => ServerName::Unreadable(error),
    })
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
