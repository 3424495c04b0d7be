//! Queries of Prometheus in the alert rules and the dashboard, held against a scrape: each metric and label
//! exists, counters are read by their increase, and legends name labels that are left.

use std::collections::{BTreeMap, BTreeSet};

/// The functions and aggregations that the queries use.
const FUNCTIONS: [&str; 7] =
    ["absent", "histogram_quantile", "increase", "min", "min_over_time", "rate", "sum"];

/// A query, with the legend of its lines if it has one.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) legend: Option<String>,
}

impl Query {
    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), legend: None }
    }
}

/// Returns the queries of a file of alert rules.
pub(crate) fn of_rules(rules: &str) -> Vec<Query> {
    let mut lines = rules.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(text) = line.strip_prefix("expr: ") else { continue };
        let text = if text == ">-" { lines.next().expect("a folded query") } else { text };
        found.push(Query::plain(text));
    }
    found
}

/// Returns the queries of a dashboard.
pub(crate) fn of_dashboard(dashboard: &serde_json::Value) -> Vec<Query> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let query = |target: &serde_json::Value| Query {
        text: target["expr"].as_str().expect("a query").to_owned(),
        legend: target["legendFormat"].as_str().map(str::to_owned),
    };
    targets.map(query).collect()
}

/// Returns the metrics of a scrape, each with its labels.
pub(crate) fn metrics(scrape: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for declared in scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        found.entry(declared.split(' ').next().unwrap_or_default().to_owned()).or_default();
    }
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let (metric, _) = line.rsplit_once(' ').expect(line);
        let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
        found.entry(name.to_owned()).or_default().extend(labels_of(labels));
    }
    found
}

/// Returns the names of labels in `a="x",b=~"y"}`.
fn labels_of(text: &str) -> Vec<String> {
    let names = text.split('"').step_by(2).filter(|part| part.contains('='));
    let bare = |part: &str| part.trim_matches([',', ' ', '=', '~', '!']).to_owned();
    names.map(bare).collect()
}

/// Returns why a query does not fit the metrics; nothing if it does.
pub(crate) fn faults(query: &Query, metrics: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    let text = query.text.as_str();
    for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
        if text.matches(open).count() != text.matches(close).count() {
            faults.push(format!("{open} and {close} do not match"));
        }
    }
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let (mut used, mut groups, mut rest) = (Vec::new(), None, text);
    let mut function = "";
    while let Some(start) = rest.find(|c: char| c == '"' || c.is_ascii_alphabetic()) {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if word == "by" {
            let (list, after) =
                after.trim_start_matches([' ', '(']).split_once(')').unwrap_or(("", ""));
            groups = Some(list.split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>());
            rest = after;
        } else if let Some(labels) = metrics.get(word) {
            used.push(labels);
            if let Some((selector, _)) = after.strip_prefix('{').and_then(|all| all.split_once('}'))
            {
                let unknown =
                    labels_of(selector).into_iter().filter(|label| !labels.contains(label));
                faults.extend(unknown.map(|label| format!("{word} has no label {label}")));
                rest = &after[selector.len() + 2..];
            }
            let is_counter = word.ends_with("_total") || word.ends_with("_bucket");
            if is_counter != matches!(function, "rate" | "increase") {
                faults.push(format!("{word} is read by {function:?}"));
            }
            // The range of time.
            rest = rest
                .strip_prefix('[')
                .and_then(|all| all.split_once(']'))
                .map_or(rest, |all| all.1);
        } else if word.starts_with("palisade_") {
            faults.push(format!("there is no metric {word}"));
        } else if after.starts_with('(') || after.starts_with(" by ") {
            function = word;
            if !FUNCTIONS.contains(&word) {
                faults.push(format!("there is no function {word}"));
            }
        } else {
            faults.push(format!("{word} is unknown"));
        }
    }
    if used.is_empty() {
        faults.push("it has no metric".to_owned());
    }
    for label in groups.iter().flatten() {
        if used.iter().any(|labels| !labels.contains(label)) {
            faults.push(format!("there is no label {label}"));
        }
    }
    let legend = query.legend.iter().flat_map(|legend| legend.split("{{").skip(1));
    for label in legend.map(|rest| rest.split("}}").next().unwrap_or_default().trim().to_owned()) {
        if !groups.iter().flatten().any(|group| *group == label) {
            faults.push(format!("the legend's label {label} is not left"));
        }
    }
    faults
}

#[test]
fn a_query_that_does_not_fit_is_found() {
    let scrape = "# TYPE palisade_calls_total counter\npalisade_calls_total{tool=\"a b\",outcome=\"ok\"} 1\n\
                  # TYPE palisade_time_seconds histogram\n\
                  palisade_time_seconds_bucket{tool=\"x\",le=\"+Inf\"} 1\n\
                  # TYPE palisade_jobs gauge\npalisade_jobs 0\n";
    let metrics = metrics(scrape);
    let faults = |text: &str, legend: Option<&str>| {
        faults(&Query { text: text.to_owned(), legend: legend.map(str::to_owned) }, &metrics)
    };
    for good in [
        "sum by (tool, outcome) (rate(palisade_calls_total{outcome=~\"a|b\", tool!=\"x\"}[10m])) > 0",
        "histogram_quantile(0.5, sum by (le) (rate(palisade_time_seconds_bucket[$__rate_interval])))",
        "min_over_time(palisade_jobs[10m]) > 0",
        "absent(palisade_jobs)",
        "palisade_jobs == 0",
    ] {
        assert_eq!(faults(good, None), Vec::<String>::new(), "{good}");
    }
    let legend = Some("{{tool}} and {{ outcome }}");
    let query = "sum by (tool) (rate(palisade_calls_total[1m]))";
    assert_eq!(faults(query, legend), ["the legend's label outcome is not left"]);
    for (bad, why) in [
        ("sum(palisade_job)", "there is no metric palisade_job"),
        ("sum by (uid) (palisade_jobs)", "there is no label uid"),
        (
            "rate(palisade_calls_total{result=\"ok\"}[1m])",
            "palisade_calls_total has no label result",
        ),
        ("sum(palisade_calls_total)", "palisade_calls_total is read by \"sum\""),
        ("rate(palisade_jobs[1m])", "palisade_jobs is read by \"rate\""),
        ("summe(palisade_jobs)", "there is no function summe"),
        ("sum(palisade_jobs", "( and ) do not match"),
        ("1 > 0", "it has no metric"),
    ] {
        let found = faults(bad, None);
        assert!(found.iter().any(|fault| fault == why), "{bad}: {found:?}");
    }
}
