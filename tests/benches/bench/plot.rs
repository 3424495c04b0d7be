//! The plot of docs/performance.md: the time of a shell that does nothing by the way it is started,
//! and the calls per second by the number of callers.

use super::report::{Report, Row, Unit};

/// Width of the picture.
const WIDTH: f64 = 760.0;
/// The column at which bars begin, right of their names.
const LEFT: f64 = 270.0;
/// The column at which bars end.
const RIGHT: f64 = 650.0;
/// Height of a row.
const ROW: f64 = 22.0;

/// Draws both charts, as SVG.
pub(super) fn draw(report: &Report) -> String {
    let mut body = String::new();
    let times: Vec<_> = report.group("bash -c true").collect();
    let mut y = title(&mut body, 24.0, "bash -c true: median, and 99 of 100 (thin), by logarithm");
    y = latencies(&mut body, y, &times) + 28.0;
    let rates: Vec<_> =
        report.group("calls per second").filter(|row| row.unit == Unit::PerSecond).collect();
    y = title(&mut body, y, "calls per second by the number of callers");
    for what in ["bash -c true, bare,", "bash -c true, ", "read_file,"] {
        let of = |row: &&&Row| {
            row.name.starts_with(what) && (what.contains("bare") || !row.name.contains("bare"))
        };
        let rows: Vec<_> = rates.iter().filter(of).copied().collect();
        y = bars(&mut body, y, &rows);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y:.0}\" \
         viewBox=\"0 0 {WIDTH} {y:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn title(body: &mut String, y: f64, text: &str) -> f64 {
    body.push_str(&format!("<text x=\"12\" y=\"{y:.0}\" font-weight=\"bold\">{text}</text>\n"));
    y + 14.0
}

/// Draws one bar for each row, the longest of them as long as there is room.
fn latencies(body: &mut String, y: f64, rows: &[&Row]) -> f64 {
    let tail = |row: &Row| row.tail.map_or(row.p50, |(_, p99)| p99);
    let most = rows.iter().map(|row| tail(row)).fold(1.0, f64::max);
    let least = rows.iter().map(|row| row.p50).fold(most, f64::min) / 2.0;
    let at = |value: f64| LEFT + (RIGHT - LEFT) * (value / least).ln() / (most / least).ln();
    let mut y = y;
    for row in rows {
        let end = at(tail(row));
        body.push_str(&format!(
            "<line x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#9aa5b1\"/>\n",
            y + ROW / 2.0
        ));
        bar(body, y, row, at(row.p50), end);
        y += ROW;
    }
    y
}

/// Draws one bar for each row, in proportion.
fn bars(body: &mut String, y: f64, rows: &[&Row]) -> f64 {
    let most = rows.iter().map(|row| row.p50).fold(1.0, f64::max);
    let mut y = y;
    for row in rows {
        let end = LEFT + (RIGHT - LEFT) * row.p50 / most;
        bar(body, y, row, end, end);
        y += ROW;
    }
    y + 8.0
}

fn bar(body: &mut String, y: f64, row: &Row, end: f64, label: f64) {
    let color = if row.ratio.is_none() { "#7b8794" } else { "#2b6cb0" };
    body.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        LEFT - 8.0,
        y + 15.0,
        row.name,
        y + 4.0,
        end - LEFT,
        ROW - 8.0,
        label + 6.0,
        y + 15.0,
        row.unit.show(row.p50),
    ));
}
