//! Fuzzes the decoders with random and with mutated valid input. They must not panic or allocate
//! beyond the limits, and accepted input must have one meaning. Runs for `PALISADE_FUZZ_SECONDS`
//! (default 5).
//!
//! A failure prints a seed; set `PALISADE_FUZZ_SEED` to it to try that input first.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arbitrary;
mod meter;

use palisade_protocol::{Envelope, ErrorCode, ServerMessage, codec, json, limits, wire};
use proptest::{
    strategy::{Strategy, ValueTree as _},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::time::{Duration, Instant};

const MAX_INPUT: usize = 64 * 1024;
const MAX_PEAK: isize = 64 * 1024 * 1024;

/// Tokens and numbers that trigger corner cases of the two parsers.
const SPLICES: [&[u8]; 18] = [
    &[251, 255, 255],
    &[252, 255, 255, 255, 255],
    &[252, 0, 0, 0, 1],
    &[253, 255, 255, 255, 255, 255, 255, 255, 255],
    &[253, 0, 0, 0, 0, 1, 0, 0, 0],
    &[254; 17],
    &[255],
    b"\"method\":\"call\",",
    b"\"id\":9007199254740993,",
    b"\"params\":{\"tool\":\"bash\"},",
    b"\\ud800",
    b"\\u0000",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":",
    b"1e999",
    b"null",
    b"\xff\xfe",
    b"\"\n\r",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")),
        Err(_) => default,
    }
}

/// Returns valid messages of every kind, in both codecs, the same in every run.
fn corpus() -> Vec<Vec<u8>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (envelopes, messages) = (arbitrary::envelope(), arbitrary::message());
    let mut corpus = Vec::new();
    for _ in 0..200 {
        let envelope = envelopes.new_tree(&mut runner).unwrap().current();
        let message = messages.new_tree(&mut runner).unwrap().current();
        corpus.push(codec::encode(&envelope).unwrap());
        corpus.push(json::encode_request(&envelope).unwrap());
        corpus.push(codec::encode(&message).unwrap());
        corpus.push(json::encode_message(&message).unwrap());
    }
    corpus
}

fn random_input(random: &mut Random) -> Vec<u8> {
    let length = match random.below(16) {
        0 => random.below(MAX_INPUT + 1),
        1..=4 => random.below(1024),
        _ => random.below(48),
    };
    (0..length).map(|_| random.byte()).collect()
}

fn mutated_input(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6).min(random.below(6)) {
        let at = random.below(input.len());
        let until = at + random.below((input.len() - at).min(64));
        match random.below(8) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[at] = random.byte(),
            2 => drop(input.drain(at..until)),
            3 => input.truncate(at),
            4 => drop(input.splice(at..at, SPLICES[random.below(SPLICES.len())].to_vec())),
            5 => drop(input.splice(at..until, SPLICES[random.below(SPLICES.len())].to_vec())),
            6 => drop(input.splice(at..at, input[at..until].repeat(1 + random.below(64)))),
            _ => {
                let other = &corpus[random.below(corpus.len())];
                drop(input.splice(at.., other[random.below(other.len())..].to_vec()));
            }
        }
    }
    input.truncate(MAX_INPUT);
    input
}

#[derive(Debug, Default)]
struct Accepted {
    frames: u64,
    lines: u64,
}

/// Runs everything that processes a peer's bytes, on both sides, in both codecs.
fn try_one(input: &[u8], accepted: &mut Accepted) {
    if let Some(first) = input.first() {
        assert_eq!(wire::sniff(*first).is_ok(), b"\0\x01{ \t\r\n".contains(first));
    }
    if let Some(prefix) = input.first_chunk()
        && let Ok(length) = codec::frame_length(*prefix)
    {
        assert!((1..=limits::MAX_FRAME).contains(&length));
    }
    match codec::decode::<Envelope>(input) {
        Ok(envelope) => {
            accepted.frames += 1;
            drop(envelope.request.check());
            let again = codec::encode(&envelope).unwrap();
            assert_eq!(codec::decode::<Envelope>(&again).unwrap(), envelope);
        }
        Err(error) => told(&error.to_wire()),
    }
    match json::decode_request(input) {
        Ok(envelope) => {
            accepted.lines += 1;
            drop(envelope.request.check());
            let again = json::encode_request(&envelope).unwrap();
            assert_eq!(json::decode_request(&again).unwrap(), envelope);
        }
        Err(rejected) => told(&rejected.error),
    }
    match codec::decode::<ServerMessage>(input) {
        Ok(message) => {
            let again = codec::encode(&message).unwrap();
            assert_eq!(codec::decode::<ServerMessage>(&again).unwrap(), message);
        }
        Err(error) => told(&error.to_wire()),
    }
    match json::decode_message(input) {
        Ok(message) => {
            let again = json::encode_message(&message).unwrap();
            assert_eq!(json::decode_message(&again).unwrap(), message);
        }
        Err(error) => told(&error),
    }
}

fn told(error: &palisade_protocol::WireError) {
    assert!(!error.message.is_empty() && error.message.len() <= limits::MAX_ERROR_TEXT);
    assert!(!error.hint.is_empty() && error.hint.len() <= limits::MAX_ERROR_TEXT);
    assert_ne!(error.code, ErrorCode::Internal);
}

/// Prints the seed if an assertion or the code under test panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to try this input again: PALISADE_FUZZ_SEED={}", self.0);
        }
    }
}

#[test]
fn no_bytes_panic_or_claim_more_than_their_limit() {
    let corpus = corpus();
    let first = number("PALISADE_FUZZ_SEED", 0);
    let end = Instant::now() + Duration::from_secs(number("PALISADE_FUZZ_SECONDS", 5));
    let (mut accepted, mut worst, mut seed) = (Accepted::default(), 0, first);
    while seed == first || Instant::now() < end {
        let guard = Seed(seed);
        let mut random = Random(seed);
        let input = match random.below(4) {
            0 => random_input(&mut random),
            _ => mutated_input(&mut random, &corpus),
        };
        let (peak, ()) = meter::peak(|| try_one(&input, &mut accepted));
        assert!(peak < MAX_PEAK, "{} bytes claimed {peak}", input.len());
        worst = worst.max(peak);
        seed = guard.0.wrapping_add(1);
    }
    eprintln!("{} inputs, {accepted:?}, at most {worst} bytes at once", seed.wrapping_sub(first));
}

/// Checks that the corpus itself is accepted, so that fuzzing starts from valid messages.
#[test]
fn the_corpus_is_valid() {
    let mut accepted = Accepted::default();
    for input in corpus() {
        try_one(&input, &mut accepted);
    }
    assert!(accepted.frames >= 200 && accepted.lines == 200, "{accepted:?}");
}

fn claimed(input: &[u8]) -> isize {
    assert!(input.len() <= MAX_INPUT);
    meter::peak(|| try_one(input, &mut Accepted::default())).0
}

/// Each of these inputs made some parser of its kind allocate without limit.
#[test]
fn hostile_lengths_and_shapes_stay_small() {
    let mut many = b"{".to_vec();
    for key in 0..MAX_INPUT / 11 {
        many.extend_from_slice(format!("\"{key:x}\":[],").as_bytes());
    }
    many.truncate(MAX_INPUT);
    for input in [
        // An `Input` whose data claims 6.4 GB, 16 MiB, and the largest number.
        b"\x07\x03\x01\xfd\x00\x00\x78\x7d\x01\x00\x00\x00".to_vec(),
        b"\x07\x03\x01\xfc\x00\x00\x00\x01".to_vec(),
        b"\x07\x03\x01\xfd\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        // A `Tools` request with 2^24 names; a reply with 2^20 tools.
        b"\x07\x08\xfc\x00\x00\x00\x01".to_vec(),
        b"\x00\x00\x06\xfc\x00\x00\x10\x00".to_vec(),
        vec![b'['; MAX_INPUT],
        b"{\"a\":".repeat(MAX_INPUT / 5),
        many,
        [b"{\"".as_slice(), &[b'x'; MAX_INPUT - 6], b"\":1}"].concat(),
        [b"{\"".as_slice(), &b"\\u0001".repeat(MAX_INPUT / 6 - 1), b"\":1}"].concat(),
    ] {
        let peak = claimed(&input);
        assert!(peak < MAX_PEAK, "{} bytes claimed {peak}", input.len());
    }
}

/// The largest lines cost at most a few times their own size, whatever their contents are.
#[test]
fn the_largest_lines_cost_a_few_times_their_size() {
    let fill = |head: &str, piece: &str, tail: &str| {
        let count = (limits::MAX_FRAME - head.len() - tail.len()) / piece.len();
        format!("{head}{}{tail}", piece.repeat(count)).into_bytes()
    };
    let params = |rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{rest}");
    for line in [
        fill("{\"", "x", "\":1}"),
        fill("{\"", "\\u0001", "\":1}"),
        fill(&params("ping\",\"params\":{\""), "x", "\":1}}"),
        fill(&params("ping\",\"params\":{\""), "\u{e000}", "\":1}}"),
        fill(&params(""), "\u{e000}", "\"}"),
        fill(&params("call\",\"params\":{\"tool\":\""), "x", "\"}}"),
        fill(&params("call\",\"params\":{\"tool\":\"x\",\"arguments\":{\"\":["), "0,", "0]}}}"),
        fill(&params("hello\",\"params\":{\"version\":1,\"capabilities\":["), "\"\",", "\"\"]}}"),
        fill(&params("tools\",\"params\":{\"names\":["), "\"a\",", "\"a\"]}}"),
    ] {
        let (peak, _) = meter::peak(|| json::decode_request(&line));
        let head = String::from_utf8_lossy(&line[..60]);
        assert!(peak < 4 * limits::MAX_FRAME.cast_signed(), "{head}… claimed {peak}");
    }
}

/// Checks the meter itself: the same length within the limit is really counted.
#[test]
fn the_meter_counts() {
    let (peak, length) = meter::peak(|| vec![1_u8; 3 << 20].len());
    assert_eq!((peak, length), (3 << 20, 3 << 20));
    assert!(claimed(b"\x07\x03\x01\xfc\x00\x00\xff\x00") >= 0xff_0000);
}
