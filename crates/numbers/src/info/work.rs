//! The progress of long work in INFO and at the metrics endpoint.

use crate::info::families::family;
use crate::info::fields::field;
use crate::info::sink::Sink;
use crate::info::value::{FieldValue, ValuePart};
use crate::progress::{LongWork, WorkKind};

/// Writes the section `progress`: the number of pieces of work in progress, and a line for each.
pub fn section(works: &[LongWork], out: &mut dyn Sink) {
    out.add(field::WORK_UNDER_WAY, works.len());
    let [mut replicas, mut exports, mut imports] = [0; 3];
    for work in works {
        let count = match &work.kind {
            WorkKind::Sending { .. } => &mut replicas,
            WorkKind::Exporting(_) => &mut exports,
            WorkKind::Importing(_) => &mut imports,
            kind => {
                work_line(work, format_args!("{}", kind.word()), out);
                continue;
            }
        };
        work_line(work, format_args!("{}{count}", work.kind.word()), out);
        *count += 1;
    }
}

fn work_line(work: &LongWork, name: std::fmt::Arguments<'_>, out: &mut dyn Sink) {
    let progress = &work.progress;
    // An unknown value is -1 in INFO, and missing at the endpoint.
    let part = |name, family, value: Option<FieldValue<'static>>| ValuePart {
        family: value.map(|_| family),
        ..ValuePart::shown(name, value.unwrap_or(FieldValue::Int(-1)))
    };
    let decimal = |number: f64| FieldValue::Decimal(number, 2);
    let whole = |number: f64| FieldValue::Decimal(number, 0);
    let mut parts = vec![
        ValuePart::hidden_label("work", work.kind.word()),
        ValuePart::label("unit", "unit", progress.unit.name()),
        part("percent", family::WORK_PERCENT, progress.percent().map(decimal)),
        ValuePart::number("done", family::WORK_DONE, progress.done),
        part("total", family::WORK_SIZE, progress.total.map(FieldValue::Uint)),
        ValuePart::number("rate", family::WORK_RATE, decimal(progress.rate())),
        part("seconds_left", family::WORK_SECONDS_LEFT, progress.seconds_left().map(whole)),
        ValuePart::number("seconds", family::WORK_SECONDS, decimal(progress.seconds())),
    ];
    match &work.kind {
        WorkKind::Sending { ip, port } => parts
            .extend([ValuePart::label("ip", "slave_ip", ip), ValuePart::label("port", "slave_port", *port)]),
        WorkKind::Exporting(slots) | WorkKind::Importing(slots) => parts.extend([
            ValuePart::label("job", "job", &slots.job),
            ValuePart::label("node", "node", &slots.node),
        ]),
        _ => {}
    }
    out.add_at(field::PROGRESS, name, FieldValue::Parts(&parts));
}
