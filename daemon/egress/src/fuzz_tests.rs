use super::*;
use crate::{
    mutation_tests::{apply, change},
    testing::random_cases,
};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use std::{fs, path::Path};

/// Tries the inputs below a directory of the project, and some changes of them.
fn try_corpus(directory: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let mut paths: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let inputs: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!inputs.is_empty());
    inputs.iter().for_each(|input| check(input));
    let config = random_cases(200);
    let cases = config.cases;
    let mut runner = TestRunner::new(config);
    let strategy = (0..inputs.len(), prop::collection::vec(change(), 1..4));
    for _ in 0..cases {
        let (which, changes) = strategy.new_tree(&mut runner).unwrap().current();
        check(&apply(&inputs, which, &changes));
    }
}

#[test]
fn hosts_have_one_form() {
    try_corpus("tests/fuzz/corpus/host_name", host_name);
}

#[test]
fn a_client_hello_has_the_name_that_a_server_reads() {
    try_corpus("daemon/egress/src/hellos", client_hello);
}

#[test]
fn what_a_server_takes_for_a_request_is_one() {
    try_corpus("tests/fuzz/corpus/first_line", first_line);
}

#[test]
fn requests_of_socks_are_read_to_their_end() {
    try_corpus("tests/fuzz/corpus/socks", socks);
}

#[test]
fn queries_have_answers_to_the_same_question() {
    try_corpus("tests/fuzz/corpus/dns_query", dns_query);
}

#[test]
fn requests_are_written_anew_for_one_host() {
    try_corpus("tests/fuzz/corpus/http_requests", http_requests);
}

#[test]
fn pages_are_rendered_within_their_bounds() {
    try_corpus("tests/fuzz/corpus/web_page", web_page);
}
