//! The fifty-odd columns of a message.

use std::sync::{Arc, OnceLock};

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Float64Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use chrono::DateTime;

use super::text::prose;
use super::{DAY_US, Rng, Row};

const ROLES: [&str; 4] = ["user", "assistant", "tool", "system"];
const MODELS: [&str; 6] =
    ["large-2026-02", "large-2025-09", "medium-2026-03", "medium-2025-11", "small-2026-01", "embed-3"];
const TOOLS: [&str; 7] =
    ["read_file", "write_file", "run_command", "search", "list_directory", "fetch_page", "apply_patch"];
const REPOSITORIES: [&str; 9] =
    ["gateway", "warehouse", "web-console", "billing", "ingest", "sdk-rust", "sdk-python", "docs", "infra"];
const STOPS: [&str; 4] = ["end_turn", "tool_use", "max_tokens", "stop_sequence"];

/// The schema of the dataset.
pub fn schema() -> SchemaRef {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    Arc::clone(SCHEMA.get_or_init(|| batch(0, &[]).schema()))
}

pub(super) fn session_id(seed: u64, session: u32) -> String {
    let mut rng = Rng::new(seed, 50_000 + u64::from(session));
    uuid(&mut rng)
}

fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next(), rng.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// A column under construction.
enum Column {
    Text(StringBuilder),
    Long(Int64Builder),
    Int(Int32Builder),
    Double(Float64Builder),
    Bool(BooleanBuilder),
    Time(TimestampMicrosecondBuilder),
    Date(Date32Builder),
}

/// Columns in the order they are first named; each row names all of them in the same order.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    columns: Vec<Column>,
    next: usize,
}

macro_rules! push {
    ($method:ident, $kind:ident, $builder:expr, $data_type:expr, $value:ty) => {
        fn $method(&mut self, name: &str, value: Option<$value>) {
            if self.next == self.columns.len() {
                self.fields.push(Field::new(name, $data_type, true));
                self.columns.push(Column::$kind($builder));
            }
            if let Column::$kind(builder) = &mut self.columns[self.next] {
                builder.append_option(value);
            }
            self.next += 1;
        }
    };
}

impl Columns {
    push!(text, Text, StringBuilder::new(), DataType::Utf8, &str);
    push!(long, Long, Int64Builder::new(), DataType::Int64, i64);
    push!(int, Int, Int32Builder::new(), DataType::Int32, i32);
    push!(double, Double, Float64Builder::new(), DataType::Float64, f64);
    push!(flag, Bool, BooleanBuilder::new(), DataType::Boolean, bool);
    push!(date, Date, Date32Builder::new(), DataType::Date32, i32);
    push!(
        time,
        Time,
        TimestampMicrosecondBuilder::new().with_timezone("+00:00"),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        i64
    );

    fn finish(self) -> RecordBatch {
        let arrays = self.columns.into_iter().map(|column| -> ArrayRef {
            match column {
                Column::Text(mut b) => Arc::new(b.finish()),
                Column::Long(mut b) => Arc::new(b.finish()),
                Column::Int(mut b) => Arc::new(b.finish()),
                Column::Double(mut b) => Arc::new(b.finish()),
                Column::Bool(mut b) => Arc::new(b.finish()),
                Column::Time(mut b) => Arc::new(b.finish()),
                Column::Date(mut b) => Arc::new(b.finish()),
            }
        });
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), arrays.collect()).expect("the columns have one length")
    }
}

pub(super) fn batch(seed: u64, rows: &[Row]) -> RecordBatch {
    let mut columns = Columns::default();
    for row in rows {
        columns.next = 0;
        push_row(&mut columns, seed, row);
    }
    if rows.is_empty() {
        push_row(&mut columns, seed, &Row { session: 0, index: 0, created_at_us: 0 });
        return columns.finish().slice(0, 0);
    }
    columns.finish()
}

fn push_row(c: &mut Columns, seed: u64, row: &Row) {
    let session = u64::from(row.session);
    // What all rows of a session share comes from one stream, the rest from the row's own.
    let mut shared = Rng::new(seed, 50_000 + session);
    let mut rng = Rng::new(seed, (session << 32) | u64::from(row.index) | 1 << 63);
    let session_id = uuid(&mut shared);
    let conversation = (shared.below(8) != 0).then(|| uuid(&mut shared));
    let repository = pick(&mut shared, &REPOSITORIES);
    let user = shared.below(40);
    let model = pick(&mut shared, &MODELS);
    let role = if row.index == 0 { "user" } else { ROLES[[0, 1, 1, 1, 2, 2, 2, 3][rng.below(8) as usize]] };
    let assistant = role == "assistant";
    let tool = (role == "tool" || assistant && rng.below(2) == 0).then(|| pick(&mut rng, &TOOLS));
    let failed = rng.below(50) == 0;
    let day = row.created_at_us.div_euclid(DAY_US) as i32;
    let date = DateTime::from_timestamp_micros(row.created_at_us).map(|t| t.format("%Y-%m-%d").to_string());
    let mut content = String::new();
    let length = 120 + (rng.unit() * rng.unit() * 3_600.0) as usize;
    prose(&mut rng, length, &mut content);
    let thinking = (assistant && rng.below(3) == 0).then(|| {
        let mut text = String::new();
        let length = 100 + rng.below(500) as usize;
        prose(&mut rng, length, &mut text);
        text
    });
    let input_tokens = (content.len() / 4) as i64 + rng.below(2_000) as i64;
    let output_tokens = assistant.then_some((content.len() / 4) as i64);
    let latency = assistant.then(|| 200.0 + rng.unit() * 20_000.0);

    c.text("message_id", Some(&uuid(&mut rng)));
    c.time("message_created_at", Some(row.created_at_us));
    c.text("date", date.as_deref());
    c.text("session_id", Some(&session_id));
    c.text("conversation_id", conversation.as_deref());
    c.text("cwd", Some(&format!("/home/user{user}/src/{repository}")));
    c.text("role", Some(role));
    c.text("model", Some(model));
    c.text("provider", Some(["north", "south", "local"][(session % 3) as usize]));
    c.text("content_text", Some(&content));
    c.text("thinking_text", thinking.as_deref());
    c.int("message_index", Some(row.index as i32));
    c.int("turn_index", Some((row.index / 3) as i32));
    c.long("input_tokens", Some(input_tokens));
    c.long("output_tokens", output_tokens);
    c.long("cache_read_tokens", assistant.then(|| rng.below(100_000) as i64));
    c.long("cache_write_tokens", assistant.then(|| rng.below(10_000) as i64));
    c.double("cost_usd", output_tokens.map(|n| (input_tokens as f64 * 3.0 + n as f64 * 15.0) / 1e6));
    c.double("latency_ms", latency);
    c.double("time_to_first_token_ms", latency.map(|ms| ms * 0.1));
    c.int("status_code", Some(if failed { 529 } else { 200 }));
    c.text("stop_reason", assistant.then(|| pick(&mut rng, &STOPS)));
    c.text("tool_name", tool);
    c.text("tool_call_id", tool.map(|_| format!("call_{:016x}", rng.next())).as_deref());
    c.text(
        "tool_input",
        tool.map(|t| format!("{{\"tool\":\"{t}\",\"path\":\"src/{}.rs\",\"line\":{}}}", repository, rng.below(900)))
            .as_deref(),
    );
    c.int("tool_exit_code", (role == "tool").then(|| i32::from(failed)));
    c.flag("is_error", Some(failed));
    c.text("error_type", failed.then_some("overloaded_error"));
    c.text("error_message", failed.then_some("The service is overloaded; the request was retried."));
    c.flag("is_sidechain", Some(session % 11 == 0));
    c.flag("streamed", Some(assistant));
    c.double("temperature", assistant.then_some(if session % 2 == 0 { 1.0 } else { 0.2 }));
    c.double("top_p", None);
    c.int("max_tokens", assistant.then_some(8_192));
    c.text("parent_message_id", (row.index > 0).then(|| uuid(&mut rng)).as_deref());
    c.text("request_id", Some(&format!("req_{:020x}", u128::from(rng.next()) << 16)));
    c.text("user_id", Some(&format!("user-{user:04}")));
    c.text("team", Some(["core", "growth", "platform"][(user % 3) as usize]));
    c.text("repository", Some(repository));
    c.text("git_branch", Some(&format!("feature/{:x}", shared.below(1 << 24))));
    c.text("git_commit", Some(&format!("{:016x}", shared.next())));
    c.text("client_name", Some(if session % 4 == 0 { "editor" } else { "terminal" }));
    c.text("client_version", Some(&format!("1.{}.{}", day.rem_euclid(30), session % 7)));
    c.text("operating_system", Some(["linux", "macos", "windows"][(user % 3) as usize]));
    c.text("host", Some(&format!("host-{:03}", user * 7 % 113)));
    c.text("region", Some(["eu-central", "us-east", "ap-south"][(session % 3) as usize]));
    c.text("endpoint", Some("/v1/messages"));
    c.text("language", Some("en"));
    c.int("attachment_count", Some(rng.below(3) as i32));
    c.time("ingested_at", Some(row.created_at_us + 1 + rng.below(5_000_000) as i64));
    c.date("retained_until", Some(day + 365));
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}
