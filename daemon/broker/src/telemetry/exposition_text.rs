//! The text format of a scrape, in which the metrics are written. Pure: no I/O.

use std::fmt::{self, Write as _};

/// Formats milliseconds as seconds.
pub(super) fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Text in the Prometheus exposition format, version 0.0.4.
#[derive(Debug, Default)]
pub(crate) struct ExpositionText(String);

impl ExpositionText {
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Writes the help and the type of a metric.
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }

    /// Writes one value of a metric.
    pub(crate) fn line(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl fmt::Display,
    ) -> fmt::Result {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let open = if index == 0 { '{' } else { ',' };
            write!(self.0, "{open}{label}=\"{value}\"")?;
        }
        let close = if labels.is_empty() { "" } else { "}" };
        writeln!(self.0, "{close} {value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_format() {
        let mut text = ExpositionText::default();
        text.head("a_total", "counter", "All.").unwrap();
        text.line("a_total", &[], 3).unwrap();
        text.line("a_total", &[("x", "a\"b\\c\n"), ("y", "z")], seconds(1_234)).unwrap();
        assert_eq!(
            text.0,
            "# HELP a_total All.\n# TYPE a_total counter\na_total 3\n\
             a_total{x=\"a\\\"b\\\\c\\n\",y=\"z\"} 1.234\n"
        );
    }
}
