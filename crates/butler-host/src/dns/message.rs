//! What is read of a message about names: enough to pass it on, to tell whether an answer is the answer, and to say no.

/// Length of the fixed part.
const HEADER: usize = 12;
/// The sender has an answer, not a question.
const RESPONSE: u8 = 0x80;
/// Which verb a message has.
const OPERATION: u8 = 0x78;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const RESPONSE_CODE: u8 = 0x0f;
/// Of labels; a larger length byte is a pointer, which a question has no use for.
const LONGEST_LABEL: u8 = 63;
/// Type and class behind the name.
const TYPE_AND_CLASS: usize = 4;
/// Types that ask for a whole zone: many messages answer them, and no machine needs them.
const ZONE_TRANSFERS: [u16; 2] = [251, 252];

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not one question.
    FormatError,
    /// Nobody answers.
    ServerFailure,
    /// It is no question, but a wish to change something.
    NotImplemented,
    /// It asks for a whole zone.
    Refused,
}

impl Refusal {
    fn code(self) -> u8 {
        match self {
            Self::FormatError => 1,
            Self::ServerFailure => 2,
            Self::NotImplemented => 4,
            Self::Refused => 5,
        }
    }
}

/// What to do with a message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is a question that can be passed on.
    Forward,
    /// It is answered with no.
    Refuse(Refusal),
    /// It is answered with nothing: an answer to it could begin a quarrel of two servers.
    Ignore,
}

/// Judges a message that came from a machine.
pub(super) fn judge(message: &[u8]) -> Verdict {
    let Some(flags) = message
        .get(..HEADER)
        .and_then(|header| header.get(2).copied())
    else {
        return Verdict::Ignore;
    };
    if flags & RESPONSE != 0 {
        return Verdict::Ignore;
    }
    if flags & OPERATION != 0 {
        return Verdict::Refuse(Refusal::NotImplemented);
    }
    match question(message) {
        None => Verdict::Refuse(Refusal::FormatError),
        Some(question) if is_zone_transfer(question) => Verdict::Refuse(Refusal::Refused),
        Some(_) => Verdict::Forward,
    }
}

/// The one question of a message: name, type and class.
fn question(message: &[u8]) -> Option<&[u8]> {
    if message.get(4..6)? != [0, 1] {
        return None;
    }
    let mut end = HEADER;
    loop {
        let length = *message.get(end)?;
        end += 1;
        if length == 0 {
            break;
        }
        if length > LONGEST_LABEL {
            return None;
        }
        end += usize::from(length);
    }
    message.get(HEADER..end + TYPE_AND_CLASS)
}

fn is_zone_transfer(question: &[u8]) -> bool {
    let kind = question
        .len()
        .checked_sub(TYPE_AND_CLASS)
        .and_then(|start| question.get(start..start + 2));
    kind.and_then(|kind| <[u8; 2]>::try_from(kind).ok())
        .is_some_and(|kind| ZONE_TRANSFERS.contains(&u16::from_be_bytes(kind)))
}

/// Whether a message answers this question: same number, same words.
pub(super) fn answers(answer: &[u8], query: &[u8]) -> bool {
    answer.get(..2) == query.get(..2)
        && answer.get(2).is_some_and(|flags| flags & RESPONSE != 0)
        && question(answer).is_some()
        && question(answer) == question(query)
}

/// Whether another server may know better.
pub(super) fn is_failure(answer: &[u8]) -> bool {
    let code = answer.get(3).map(|flags| flags & RESPONSE_CODE);
    [
        Refusal::ServerFailure,
        Refusal::NotImplemented,
        Refusal::Refused,
    ]
    .iter()
    .any(|refusal| Some(refusal.code()) == code)
}

/// Says no to a question.
pub(super) fn refuse(query: &[u8], refusal: Refusal) -> Vec<u8> {
    let mut answer = vec![0; HEADER];
    answer[..2].copy_from_slice(query.get(..2).unwrap_or(&[0, 0]));
    let flags = query.get(2).copied().unwrap_or_default();
    answer[2] = RESPONSE | flags & (OPERATION | RECURSION_DESIRED);
    answer[3] = RECURSION_AVAILABLE | refusal.code();
    if let Some(question) = question(query) {
        answer[5] = 1;
        answer.extend_from_slice(question);
    }
    answer
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: u16 = 1;

    /// A question for the address of a name of two labels.
    pub(in crate::dns) fn query(number: u16, first: &str, kind: u16) -> Vec<u8> {
        let mut message = number.to_be_bytes().to_vec();
        message.extend([RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in [first, "test"] {
            message.push(label.len().try_into().unwrap());
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    #[test]
    fn a_question_is_passed_on() {
        assert_eq!(judge(&query(7, "butler", ADDRESS)), Verdict::Forward);
    }

    #[test]
    fn what_is_no_question_is_not_passed_on() {
        assert_eq!(judge(b"short"), Verdict::Ignore);
        let mut answer = query(7, "butler", ADDRESS);
        answer[2] |= RESPONSE;
        assert_eq!(judge(&answer), Verdict::Ignore, "no quarrel of servers");
        let mut update = query(7, "butler", ADDRESS);
        update[2] = 5 << 3;
        assert_eq!(judge(&update), Verdict::Refuse(Refusal::NotImplemented));
        assert_eq!(
            judge(&query(7, "butler", 252)),
            Verdict::Refuse(Refusal::Refused)
        );
        let mut two = query(7, "butler", ADDRESS);
        two[5] = 2;
        assert_eq!(judge(&two), Verdict::Refuse(Refusal::FormatError));
        let mut pointer = query(7, "butler", ADDRESS);
        pointer[HEADER] = 0xc0;
        assert_eq!(judge(&pointer), Verdict::Refuse(Refusal::FormatError));
    }

    #[test]
    fn no_is_said_to_the_question_that_was_asked() {
        let query = query(7, "butler", ADDRESS);
        let no = refuse(&query, Refusal::ServerFailure);
        assert!(answers(&no, &query));
        assert!(is_failure(&no));
        assert_eq!(no[2] & RECURSION_DESIRED, RECURSION_DESIRED);
    }

    #[test]
    fn an_answer_to_something_else_is_no_answer() {
        let asked = query(7, "butler", ADDRESS);
        for other in [
            query(8, "butler", ADDRESS),
            query(7, "other", ADDRESS),
            query(7, "butler", 28),
        ] {
            assert!(!answers(&refuse(&other, Refusal::Refused), &asked));
        }
        assert!(!answers(&asked, &asked), "a question is no answer");
        assert!(!answers(&[], &[]));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = judge(&bytes);
            let _ = answers(&bytes, &bytes);
            let _ = is_failure(&bytes);
            prop_assert!(refuse(&bytes, Refusal::FormatError).len() >= HEADER);
        }
    }
}
