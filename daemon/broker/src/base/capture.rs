//! Keeps the head and the tail of a stream in constant memory, with exact counts. Pure: no I/O.

/// The head and the tail of a stream.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: Vec<u8>,
    head_most: usize,
    tail_most: usize,
    total: u64,
}

/// The text that a capture shows of its stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CapturedText {
    /// Head and tail, with a mark between them that says how much is missing.
    pub(crate) text: String,
    /// The number of bytes that are not in `text`.
    pub(crate) omitted: u64,
    /// True if bytes that are not UTF-8 were replaced.
    pub(crate) lossy: bool,
}

impl Capture {
    /// Makes a capture that keeps at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        let head_most = most / 2;
        let (head, tail) = (Vec::new(), Vec::new());
        Self { head, tail, head_most, tail_most: most - head_most, total: 0 }
    }

    /// The number of bytes seen so far.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Everything seen so far, in two pieces, as long as nothing had to be left out.
    pub(crate) fn whole(&self) -> Option<(&[u8], &[u8])> {
        (self.total == (self.head.len() + self.tail.len()) as u64)
            .then_some((self.head.as_slice(), self.tail.as_slice()))
    }

    /// Returns `true` if `more` bytes would still fit.
    pub(crate) fn holds(&self, more: usize) -> bool {
        self.total + more as u64 <= (self.head_most + self.tail_most) as u64
    }

    /// Adds the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_most - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        // Only the end of a long piece can stay, so no more than that is ever copied.
        let rest = rest.get(rest.len().saturating_sub(self.tail_most)..).unwrap_or_default();
        self.tail.extend_from_slice(rest);
        // Trimming at twice the bound makes each byte move at most once more.
        if self.tail.len() > self.tail_most * 2 {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let over = self.tail.len().saturating_sub(self.tail_most);
        self.tail.drain(..over);
    }

    /// Returns what is to be shown.
    pub(crate) fn finish(mut self) -> CapturedText {
        self.trim();
        if self.whole().is_some() {
            self.head.append(&mut self.tail);
            let (text, lossy) = decode(&self.head);
            return CapturedText { text, omitted: 0, lossy };
        }
        let head = without_cut_end(&self.head);
        let tail = without_cut_start(&self.tail);
        let omitted = self.total - (head.len() + tail.len()) as u64;
        let ((head, first), (tail, second)) = (decode(head), decode(tail));
        let text = format!("{head}\n[... {omitted} bytes left out ...]\n{tail}");
        CapturedText { text, omitted, lossy: first || second }
    }
}

pub(crate) fn decode(bytes: &[u8]) -> (String, bool) {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(text) => (text.to_owned(), false),
        std::borrow::Cow::Owned(text) => (text, true),
    }
}

/// Returns the bytes without a character that the cut went through at the end.
pub(crate) fn without_cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=3.min(bytes.len()) {
        let at = bytes.len() - back;
        let needs = match bytes[at] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => break,
        };
        return if needs > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Returns the bytes without the rest of a character that the cut went through at the start.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..=0xBF).contains(*byte)).count();
    &bytes[cut..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture(most: usize, pieces: &[&[u8]]) -> CapturedText {
        let mut capture = Capture::new(most);
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.finish()
    }

    #[test]
    fn what_fits_is_shown_whole() {
        let shown = capture(10, &[b"01234", b"56789"]);
        assert_eq!(shown, CapturedText { text: "0123456789".into(), omitted: 0, lossy: false });
    }

    #[test]
    fn one_byte_more_is_counted() {
        let shown = capture(10, &[b"01234", b"56789", b"x"]);
        assert_eq!(shown.text, "01234\n[... 1 bytes left out ...]\n6789x");
        assert_eq!((shown.omitted, shown.lossy), (1, false));
    }

    #[test]
    fn a_character_is_never_cut() {
        // Head and tail of 5 bytes each, both borders inside a three-byte character.
        let shown = capture(10, &["€€€€€".as_bytes()]);
        assert_eq!(shown.text, "€\n[... 9 bytes left out ...]\n€");
        assert_eq!((shown.omitted, shown.lossy), (9, false));
    }

    #[test]
    fn bytes_that_are_not_text_are_marked() {
        let shown = capture(10, &[b"a\xffb"]);
        assert_eq!(shown, CapturedText { text: "a\u{fffd}b".into(), omitted: 0, lossy: true });
    }

    #[test]
    fn a_flood_stays_in_bounds() {
        let mut capture = Capture::new(1000);
        for _ in 0..1000 {
            capture.push(&[b'x'; 700]);
            assert!(capture.head.capacity() + capture.tail.capacity() <= 4 * 1000);
        }
        assert_eq!(capture.total(), 700_000);
        assert_eq!(capture.finish().omitted, 699_000);
    }

    #[test]
    fn everything_can_be_had_back_until_it_no_longer_fits() {
        let mut capture = Capture::new(4);
        capture.push(b"abcd");
        assert_eq!(capture.whole(), Some((b"ab".as_slice(), b"cd".as_slice())));
        assert!(!capture.holds(1));
        capture.push(b"efghi");
        assert_eq!(capture.whole(), None);
    }

    proptest! {
        #[test]
        fn kept_and_omitted_make_up_the_whole(text in "\\PC{0,200}", most in 0_usize..64,
                                              step in 1_usize..17) {
            let mut capture = Capture::new(most);
            text.as_bytes().chunks(step).for_each(|piece| capture.push(piece));
            prop_assert_eq!(capture.total(), text.len() as u64);
            let shown = capture.finish();
            prop_assert!(!shown.lossy);
            if shown.omitted == 0 {
                prop_assert_eq!(shown.text, text);
            } else {
                let mark = format!("\n[... {} bytes left out ...]\n", shown.omitted);
                let (head, tail) = shown.text.split_once(&mark).expect("a mark");
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!((head.len() + tail.len()) as u64 + shown.omitted,
                                text.len() as u64);
                prop_assert!(head.len() + tail.len() <= most);
            }
        }

        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..300),
                                most in 0_usize..64, step in 1_usize..17) {
            let mut capture = Capture::new(most);
            bytes.chunks(step).for_each(|piece| capture.push(piece));
            let mut at_once = Capture::new(most);
            at_once.push(&bytes);
            prop_assert_eq!(capture.finish(), at_once.finish());
        }
    }
}
