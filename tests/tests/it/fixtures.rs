//! Tables that other engines wrote, each value of them compared with what its writer says is in it.
//!
//! ```text
//! <set>/<table>/metadata/….json ─ CREATE EXTERNAL TABLE, relocated ─▶ rows ┐
//! <set>/expected.json                                      rows, sums, … ──┴─ the same?
//! ```
//!
//! All tables are tried. One that nobody can read is listed with the reason, and must be refused for it.
// @spec P7 P8

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use daygrain::{Error, Options, Session};
use serde_json::{Map, Value, json};

/// `(set/table, beginnings of its metadata files' names, what the refusal says)`.
const UNREADABLE: &[(&str, &[&str], &str)] = &[
    // Its mapping is empty, so its required column is in no file: the reference implementation refuses it as well.
    ("others/name_mapping_t1", &["v3.2."], "a data file lacks a required column"),
    // Its manifest list isn't there: nobody can read this version, and who tries is told which file.
    ("others/equality_deletes_mytable", &["v3."], "error[manifest_corrupt]"),
];

fn shared() -> Option<PathBuf> {
    let Some(root) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not say where the tables are");
        return None;
    };
    let path = PathBuf::from(root).join("fixtures");
    assert!(path.exists(), "{} does not exist", path.display());
    Some(path)
}

/// A table at one of its metadata files, and what is said of it.
struct Fixture {
    /// `set/table`.
    table: String,
    metadata: String,
    says: Map<String, Value>,
}

/// Every table of every set.
fn fixtures(root: &std::path::Path) -> Vec<Fixture> {
    let read = |set: &str| -> BTreeMap<String, Map<String, Value>> {
        let text = std::fs::read_to_string(root.join(set).join("expected.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let spark = read("spark").into_iter().map(|(table, says)| Fixture {
        table: format!("spark/{table}"),
        metadata: says["metadata"].as_str().unwrap().to_owned(),
        says,
    });
    let others = read("others").into_iter().flat_map(|(table, versions)| {
        versions.into_iter().map(move |(metadata, says)| {
            let says = says.as_object().unwrap().clone();
            Fixture { table: format!("others/{table}"), metadata, says }
        })
    });
    spark.chain(others).collect()
}

#[tokio::test]
async fn tables_of_other_engines_hold_what_they_say() {
    let Some(root) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(Options::at(directory.path().join("warehouse").to_str().unwrap())).unwrap();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (at, fixture) in fixtures(&root).iter().enumerate() {
        let Fixture { table, metadata, .. } = fixture;
        let location = root.join(table).join(metadata);
        let declared = format!(
            "CREATE EXTERNAL TABLE t{at} STORED AS ICEBERG LOCATION '{}' OPTIONS ('relocate' 'true')",
            location.display()
        );
        let name = format!("t{at}");
        let result = async {
            session.query(&declared).await?;
            compare(&session, &name, fixture).await
        };
        let file = metadata.strip_prefix("metadata/").unwrap_or(metadata);
        let listed = UNREADABLE.iter().find(|(t, files, _)| t == table && files.iter().any(|m| file.starts_with(m)));
        let refusal = listed.map(|(_, _, says)| *says);
        let verdict = match (result.await, refusal) {
            (Ok(differences), None) => differences.into_iter().next(),
            (Err(error), Some(says)) if error.to_string().contains(says) => None,
            (Err(error), _) => Some(error.to_string()),
            (Ok(_), Some(says)) => Some(format!("can be read, and is listed as: {says}")),
        };
        compared += 1;
        wrong.extend(verdict.map(|verdict| format!("{table} {metadata}: {verdict}")));
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{compared} tables compared");
}

/// What differs.
async fn compare(session: &Session, name: &str, fixture: &Fixture) -> Result<Vec<String>, Error> {
    let says = &fixture.says;
    let mut differences = Vec::new();
    let mut check = |what: &str, found: &Value, said: &Value| {
        if found != said {
            differences.push(format!("{what}: found {}, said {}", cut(found), cut(said)));
        }
    };
    let rows = says.get("rows").unwrap_or(&Value::Null);
    let counted = session.query(&format!("SELECT count(*) FROM {name}")).await?.batches;
    check("count(*)", &values(&counted)[0][0], rows);
    let batches = session.query(&format!("SELECT * FROM {name}")).await?.batches;
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    check("rows", &json!(total), rows);
    // No rows, no batches: nothing is left to compare.
    let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(differences) };
    let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    // The engine asked there numbers names that differ in case only.
    if fixture.table != "others/case_sensitive_names" {
        check("columns", &json!(columns), &says["columns"]);
    }
    if let Some(Value::Array(said)) = says.get("values") {
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        let canonical = |row: &Value| -> Value {
            let cells = row.as_array().unwrap().iter().zip(&types);
            cells.map(|(cell, data_type)| canonical(cell, data_type)).collect()
        };
        check("values", &sorted(values(&batches).into_iter()), &sorted(said.iter().map(canonical)));
    }
    for (column, said) in says.get("aggregates").and_then(Value::as_object).into_iter().flatten() {
        for (aggregate, said) in said.as_object().unwrap() {
            let asked = match aggregate.as_str() {
                "distinct" => format!("count(DISTINCT \"{column}\")"),
                other => format!("{other}(\"{column}\")"),
            };
            let found = session.query(&format!("SELECT {asked} FROM {name}")).await?.batches;
            let data_type = found[0].schema().field(0).data_type().clone();
            check(&asked, &values(&found)[0][0], &canonical(said, &data_type));
        }
    }
    Ok(differences)
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}

fn sorted(rows: impl Iterator<Item = Value>) -> Value {
    let mut rows: Vec<Value> = rows.collect();
    rows.sort_by_cached_key(Value::to_string);
    Value::Array(rows)
}

/// The rows of batches.
fn values(batches: &[RecordBatch]) -> Vec<Value> {
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| batch.columns().iter().map(|column| value(column, row)).collect())
    });
    rows.collect()
}

/// A value as JSON, in the one form that [`canonical`] makes of what was said.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let elements = |list: ArrayRef| (0..list.len()).map(|at| value(&list, at)).collect::<Vec<_>>();
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => json!(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::Binary => json!(hex(array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => json!(hex(array.as_binary::<i64>().value(row))),
        DataType::BinaryView => json!(hex(array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => json!(hex(array.as_fixed_size_binary().value(row))),
        DataType::Time64(TimeUnit::Microsecond) => {
            let micros = array.as_primitive::<Time64MicrosecondType>().value(row);
            let time = chrono::DateTime::from_timestamp_micros(micros).unwrap().time();
            json!(time.format("%H:%M:%S%.f").to_string())
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            columns.map(|(field, column)| (field.name().clone(), value(column, row))).collect::<Map<_, _>>().into()
        }
        DataType::List(_) => elements(array.as_list::<i32>().value(row)).into(),
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (elements(entries.column(0).clone()), elements(entries.column(1).clone()));
            sorted(keys.into_iter().zip(values).map(|(key, value)| json!([key, value])))
        }
        data_type => {
            let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
            let options = options.with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f"));
            let text = ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string();
            json!(if matches!(data_type, DataType::Timestamp(..)) { timestamp(&text) } else { text })
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without zone, `T` and zeros at the end of a fraction.
fn timestamp(text: &str) -> String {
    let text = text.replace('T', " ").replace("+00:00", "").replace('Z', "");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// What was said of a value of this type, in the one form that [`value`] makes.
fn canonical(said: &Value, data_type: &DataType) -> Value {
    match (said, data_type) {
        (Value::String(text), DataType::Timestamp(..)) => json!(timestamp(text)),
        (Value::String(text), DataType::Time64(_)) => json!(timestamp(text)),
        (Value::String(text), DataType::FixedSizeBinary(_)) => json!(text.replace('-', "")),
        (Value::Number(number), DataType::Float32) => json!(number.as_f64().map(|x| f64::from(x as f32))),
        (Value::Number(number), DataType::Float64) => json!(number.as_f64()),
        (Value::Object(object), DataType::Struct(fields)) => {
            let of = |name: &String| fields.iter().find(|field| field.name() == name).map(|field| field.data_type());
            let each =
                object.iter().map(|(name, said)| (name.clone(), canonical(said, of(name).unwrap_or(&DataType::Null))));
            each.collect::<Map<_, _>>().into()
        }
        (Value::Array(each), DataType::List(field)) => {
            each.iter().map(|said| canonical(said, field.data_type())).collect()
        }
        (Value::Array(each), DataType::Map(entries, _)) => {
            let DataType::Struct(fields) = entries.data_type() else { unreachable!("a map's entries are structs") };
            let pair = |said: &Value| {
                let cells = said.as_array().unwrap().iter().zip(fields.iter());
                cells.map(|(said, field)| canonical(said, field.data_type())).collect::<Value>()
            };
            sorted(each.iter().map(pair))
        }
        _ => said.clone(),
    }
}
