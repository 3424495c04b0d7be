//! One of the tests that a profile contains: `read $WORKSPACE/x: allow`. Pure: no I/O.

use crate::{
    act::{Act, Decision},
    source::Origin,
};

/// One test that a profile contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The operation that is tested.
    pub act: Act,
    /// The target: a path, which may begin with a variable, or an address with its port.
    pub target: String,
    /// The decision that the test expects.
    pub expected: Decision,
    /// The source position of the test.
    pub at: Origin,
}

impl std::fmt::Display for Example {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.act, self.target, self.expected)
    }
}

impl Example {
    /// Parses a test.
    ///
    /// # Errors
    /// The problem, and a suggestion.
    pub(crate) fn parse(text: &str, at: Origin) -> Result<Self, (String, String)> {
        const SHAPE: &str = "write it as \"read $WORKSPACE/x: allow\"";
        let wrong = |why: String| (format!("{text:?} {why}"), SHAPE.to_owned());
        let (rest, answer) =
            text.rsplit_once(':').ok_or_else(|| wrong("has no decision".to_owned()))?;
        let expected = match answer.trim() {
            "allow" => Decision::Allow,
            "ask" => Decision::Ask,
            "deny" => Decision::Deny,
            other => {
                let near = palisade_text::nearest(other, ["allow", "ask", "deny"]);
                let hint = near.map_or(SHAPE.to_owned(), |near| format!("did you mean {near:?}?"));
                return Err((
                    format!("{text:?} does not end in `: allow`, `: ask` or `: deny`"),
                    hint,
                ));
            }
        };
        let (act, target) =
            rest.trim().split_once(' ').ok_or_else(|| wrong("has no target".to_owned()))?;
        let act = act.parse::<Act>().map_err(|why| {
            let near = palisade_text::nearest(act, Act::ALL.map(Act::name));
            (
                format!("{text:?}: {why}"),
                near.map_or(SHAPE.to_owned(), |n| format!("did you mean {n:?}?")),
            )
        })?;
        Ok(Self { act, target: target.trim().to_owned(), expected, at })
    }
}
