//! The messages of DNS that the room reads and writes: one question, and at most one address.

use std::net::Ipv4Addr;

/// Most bytes of a query: a header, a name and options of a usual size.
pub(crate) const MAX_QUERY: usize = 1232;

const HEADER: usize = 12;
/// Most bytes of a name in a message.
const MAX_NAME: usize = 255;
/// The class of the internet.
const INTERNET: u16 = 1;
/// The seconds for which an answer may be kept.
const TTL: u32 = 10;

/// Types of records.
const A: u16 = 1;

/// Bits of the flags.
const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;

/// The result in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The name's address.
    Address(Ipv4Addr),
    /// The name has no record of this type.
    Nothing,
    /// There is no such name.
    NoName,
    /// The room can not answer now.
    Failure,
}

/// A message that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Query<'a> {
    /// A query for one name.
    Question(Question<'a>),
    /// A message that is answered with this code.
    Refused(Vec<u8>),
    /// A message that is not answered: it is none, or an answer itself.
    Ignored,
}

/// A query for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question<'a> {
    id: [u8; 2],
    flags: u16,
    /// The name, type and class, as they are in the message.
    bytes: &'a [u8],
    /// The name as text, without a trailing dot; `None` if a part of it has a dot inside.
    pub(crate) name: Option<Vec<u8>>,
    /// True if the query is for addresses of IPv4.
    pub(crate) is_for_address: bool,
}

/// Reads a message of a program.
pub(crate) fn read_query(message: &[u8]) -> Query<'_> {
    let Some((header, body)) = message.split_first_chunk::<HEADER>() else {
        return Query::Ignored;
    };
    let [id0, id1, flags0, flags1, questions0, questions1, ..] = *header;
    let (id, flags) = ([id0, id1], u16::from_be_bytes([flags0, flags1]));
    if flags & RESPONSE != 0 {
        return Query::Ignored;
    }
    if flags & OPCODE != 0 {
        return Query::Refused(head(id, flags, NOT_IMPLEMENTED, 0, 0).to_vec());
    }
    let broken = || Query::Refused(head(id, flags, FORMAT_ERROR, 0, 0).to_vec());
    if [questions0, questions1] != [0, 1] {
        return broken();
    }
    let Some((name, end)) = read_name(body) else { return broken() };
    let Some([type0, type1, class0, class1]) = body[end..].first_chunk() else { return broken() };
    let is_internet = u16::from_be_bytes([*class0, *class1]) == INTERNET;
    let is_for_address = is_internet && u16::from_be_bytes([*type0, *type1]) == A;
    Query::Question(Question { id, flags, bytes: &body[..end + 4], name, is_for_address })
}

/// Reads a name, which in a question is never compressed. Returns it as text, and its length.
fn read_name(body: &[u8]) -> Option<(Option<Vec<u8>>, usize)> {
    let mut text = Some(Vec::new());
    let mut at = 0;
    loop {
        let length = usize::from(*body.get(at)?);
        at += 1;
        if length == 0 {
            return Some((text, at));
        }
        // Longer ones are pointers, or of kinds that were never used.
        if length > 63 || at + length >= MAX_NAME {
            return None;
        }
        let label = body.get(at..at + length)?;
        at += length;
        text = text.filter(|_| !label.contains(&b'.')).map(|mut text| {
            if !text.is_empty() {
                text.push(b'.');
            }
            text.extend_from_slice(label);
            text
        });
    }
}

/// Codes of answers.
const NO_ERROR: u16 = 0;
const FORMAT_ERROR: u16 = 1;
const SERVER_FAILURE: u16 = 2;
const NAME_ERROR: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;

fn head(id: [u8; 2], flags: u16, code: u16, questions: u8, answers: u8) -> [u8; HEADER] {
    let flags = RESPONSE | RECURSION_AVAILABLE | flags & (OPCODE | RECURSION_DESIRED) | code;
    let [flags0, flags1] = flags.to_be_bytes();
    [id[0], id[1], flags0, flags1, 0, questions, 0, answers, 0, 0, 0, 0]
}

impl Question<'_> {
    /// Returns the message that answers the question.
    pub(crate) fn answer(&self, reply: Reply) -> Vec<u8> {
        let (code, address) = match reply {
            Reply::Address(address) => (NO_ERROR, Some(address)),
            Reply::Nothing => (NO_ERROR, None),
            Reply::NoName => (NAME_ERROR, None),
            Reply::Failure => (SERVER_FAILURE, None),
        };
        let mut message = head(self.id, self.flags, code, 1, address.map_or(0, |_| 1)).to_vec();
        message.extend_from_slice(self.bytes);
        if let Some(address) = address {
            // The name is the question's, which begins after the header.
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&A.to_be_bytes());
            message.extend_from_slice(&INTERNET.to_be_bytes());
            message.extend_from_slice(&TTL.to_be_bytes());
            message.extend_from_slice(&4_u16.to_be_bytes());
            message.extend_from_slice(&address.octets());
        }
        message
    }
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
