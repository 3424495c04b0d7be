//! Tests of notebooks as text, and of files that only look like one.

use crate::tools::testing::Broker;
use palisade_plan::cell::{Conversion, FileReply, Form, Part};
use std::fs;

const BOOK: &str = r##"{"nbformat": 4, "metadata": {"x": [1, {"y": null}]}, "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]},
  {"cell_type": "code", "execution_count": 1, "source": "print(1)\n1/0", "outputs": [
    {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
    {"output_type": "execute_result", "data": {"text/plain": "'x'", "image/png": "aGk="}},
    {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\u001b[31m"]}
  ]},
  {"cell_type": "code", "source": []}
]}"##;

const TEXT: &str = "[cell 0: markdown]\n# Title\ntext\n[cell 1: code]\nprint(1)\n1/0\n[output: stream]\n1\n\
[output: execute_result]\n'x'\n[also as image/png]\n[output: error]\nZeroDivisionError: division by zero\n[cell 2: code]\n";

fn read(text: &[u8], part: Part) -> (String, bool, Conversion) {
    let broker = Broker::new();
    let path = broker.path("book.ipynb");
    fs::write(path.as_path(), text).unwrap();
    let (data, reply) = broker.read_as(&path, part, 9 << 20, Form::Notebook).unwrap();
    let FileReply::Read { bytes, size, complete, made, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((bytes, size), (data.len() as u64, text.len() as u64));
    (String::from_utf8(data).unwrap(), complete, made)
}

#[test]
fn cells_and_what_they_printed_are_shown() {
    let made = Conversion::Notebook { cells: 3 };
    assert_eq!(read(BOOK.as_bytes(), Part::All), (TEXT.to_owned(), true, made.clone()));
    let some = read(BOOK.as_bytes(), Part::Lines { first: 5, count: 2 });
    assert_eq!(some, ("print(1)\n1/0\n".to_owned(), true, made));
}

#[test]
fn what_is_no_notebook_comes_as_it_is_with_the_reason() {
    let deep = format!("{{\"cells\": {}", "[".repeat(100_000));
    for text in ["", "{", "[]", "{\"cells\": 1}", "{\"cells\": [{}]}", &BOOK[..300], &deep] {
        let (shown, complete, made) = read(text.as_bytes(), Part::All);
        assert_eq!((shown.as_str(), complete), (text, true));
        assert!(matches!(made, Conversion::NoNotebook { ref why } if !why.is_empty()), "{made:?}");
    }
}

#[test]
fn much_is_not_made_of_little() {
    let outputs = vec!["{}"; 1_000_000].join(",");
    let cell = format!(r#"{{"cell_type": "code", "outputs": [{outputs}]}}"#);
    let (shown, _, made) = read(format!(r#"{{"cells": [{cell}]}}"#).as_bytes(), Part::All);
    assert_eq!(made, Conversion::Notebook { cells: 1 });
    assert!(shown.ends_with("[output: ]\n[990000 more outputs left out]\n"));
    let long = format!(
        r#"{{"cells": [{{"cell_type": "code", "outputs": [{{"output_type": "stream", "text": "{}"}}]}}]}}"#,
        "é".repeat(10_000)
    );
    let (shown, ..) = read(long.as_bytes(), Part::All);
    assert!(shown.ends_with("é\n[11808 more bytes left out]\n"), "{}", shown.len());
}
