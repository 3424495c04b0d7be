//! One of a profile's own tests: `read $WORKSPACE/x: allow`.

use crate::{
    act::{Act, Decision},
    keys::nearest,
    source::Origin,
};

/// One test of a profile's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// What is tried.
    pub act: Act,
    /// On what: a path, perhaps below a variable, or an address with its port.
    pub target: String,
    /// What must come of it.
    pub expected: Decision,
    /// Where it stands.
    pub at: Origin,
}

impl std::fmt::Display for Example {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.act, self.target, self.expected)
    }
}

impl Example {
    /// Reads one; else what is wrong and what to write.
    pub(crate) fn parse(text: &str, at: Origin) -> Result<Self, (String, String)> {
        const SHAPE: &str = "write it as \"read $WORKSPACE/x: allow\"";
        let wrong = |why: String| (format!("{text:?} {why}"), SHAPE.to_owned());
        let (rest, answer) =
            text.rsplit_once(':').ok_or_else(|| wrong("has no answer".to_owned()))?;
        let expected = match answer.trim() {
            "allow" => Decision::Allow,
            "deny" => Decision::Deny,
            other => {
                let near = nearest(other, ["allow", "deny"]);
                let hint = near.map_or(SHAPE.to_owned(), |near| format!("did you mean {near:?}?"));
                return Err((format!("{text:?} does not end in `: allow` or `: deny`"), hint));
            }
        };
        let (act, target) =
            rest.trim().split_once(' ').ok_or_else(|| wrong("has no target".to_owned()))?;
        let act = act.parse::<Act>().map_err(|why| {
            let near = nearest(act, Act::ALL.map(Act::name));
            (
                format!("{text:?}: {why}"),
                near.map_or(SHAPE.to_owned(), |n| format!("did you mean {n:?}?")),
            )
        })?;
        Ok(Self { act, target: target.trim().to_owned(), expected, at })
    }
}
