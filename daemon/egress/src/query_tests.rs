use super::*;
use proptest::prelude::*;

/// A query with these labels and this type.
fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label);
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

fn question(message: &[u8]) -> Question<'_> {
    let Query::Question(question) = read_query(message) else { panic!("{message:?}") };
    question
}

#[test]
fn a_query_is_answered_with_its_own_question() {
    let message = query(&[b"Allowed", b"test"], 1);
    let with_options = [message.as_slice(), &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]].concat();
    for message in [&message, &with_options] {
        let read = question(message);
        assert_eq!(read.name.as_deref(), Some(b"Allowed.test".as_slice()));
        assert!(read.is_for_address);
        let answer = read.answer(Reply::Address(Ipv4Addr::new(198, 18, 0, 1)));
        let mut expected = vec![0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        expected.extend_from_slice(b"\x07Allowed\x04test\0\0\x01\0\x01");
        expected.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 10, 0, 4, 198, 18, 0, 1]);
        assert_eq!(answer, expected);
    }
}

#[test]
fn other_answers_have_a_code_and_no_address() {
    let message = query(&[b"x"], 28);
    let read = question(&message);
    assert!(!read.is_for_address);
    for (reply, code) in [(Reply::Nothing, 0), (Reply::NoName, 3), (Reply::Failure, 2)] {
        let answer = read.answer(reply);
        assert_eq!(answer[..12], [0xab, 0xcd, 0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[12..], message[12..]);
    }
}

#[test]
fn messages_that_are_no_query_are_refused_or_ignored() {
    let good = query(&[b"allowed", b"test"], 1);
    let changed = |at: usize, value: u8| {
        let mut message = good.clone();
        message[at] = value;
        message
    };
    let code = |message: &[u8]| match read_query(message) {
        Query::Refused(answer) => {
            assert_eq!(answer.len(), HEADER);
            Some(answer[3] & 15)
        }
        Query::Question(_) => Some(0),
        Query::Ignored => None,
    };
    assert_eq!(code(&good), Some(0), "control");
    assert_eq!(code(&good[..11]), None, "too short for an answer");
    assert_eq!(code(&changed(2, 0x81)), None, "an answer is never answered");
    assert_eq!(code(&changed(2, 0x29)), Some(4), "another operation");
    assert_eq!(code(&changed(5, 0)), Some(1), "no question");
    assert_eq!(code(&changed(5, 2)), Some(1), "two questions");
    assert_eq!(code(&changed(12, 0xc0)), Some(1), "a pointer");
    assert_eq!(code(&changed(12, 64)), Some(1), "a long label");
    for end in HEADER..good.len() {
        assert_eq!(code(&good[..end]), Some(1), "{end} bytes");
    }
    let long = [b"a".repeat(63), b"b".repeat(63), b"c".repeat(63), b"d".repeat(63)];
    let labels: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
    assert_eq!(code(&query(&labels, 1)), Some(1), "a long name");
    assert_eq!(code(&query(&labels[..3], 1)), Some(0), "control");
}

#[test]
fn a_dot_inside_a_label_is_no_separator() {
    assert_eq!(question(&query(&[b"a.b", b"test"], 1)).name, None);
    assert_eq!(question(&query(&[b"a\0b"], 1)).name.as_deref(), Some(b"a\0b".as_slice()));
    assert_eq!(question(&query(&[], 1)).name.as_deref(), Some(b"".as_slice()));
}

#[test]
fn a_class_other_than_the_internet_has_no_addresses() {
    let mut message = query(&[b"version", b"bind"], 1);
    *message.last_mut().unwrap() = 3;
    assert!(!question(&message).is_for_address);
}

proptest! {
    #![proptest_config(crate::testing::random_cases(1024))]

    #[test]
    fn any_bytes_get_a_bounded_answer_or_none(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        keep_header in any::<bool>(),
    ) {
        let good = query(&[], 1);
        let message = if keep_header { [&good[..HEADER], &bytes].concat() } else { bytes };
        match read_query(&message) {
            Query::Question(question) => {
                let answer = question.answer(Reply::Address(Ipv4Addr::LOCALHOST));
                prop_assert!(answer.len() <= 512);
                prop_assert_eq!(&answer[..2], &message[..2]);
                prop_assert!(question.name.is_none_or(|name| name.len() < MAX_NAME));
            }
            Query::Refused(answer) => prop_assert_eq!(answer.len(), HEADER),
            Query::Ignored => {}
        }
    }
}
