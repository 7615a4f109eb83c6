//! Does what goes in come out?

use super::*;

/// Any JSON, with names and kinds that repeat often enough to form shapes.
fn json_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-5_i64..5).prop_map(Json::from),
        (-1e12..1e12).prop_map(|x: f64| Json::from(x)),
        (-1e-6..1e-6).prop_map(|x: f64| Json::from(x)),
        ".{0,6}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from), object(inner),]
    })
}

fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    let name = prop::sample::select(vec!["a", "b", "A", "", "x.y", "é", "c[]"]);
    prop::collection::btree_map(name, value, 0..4)
        .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

/// A row of values that mostly have the same kind in the same place.
fn row() -> impl Strategy<Value = Json> {
    let shaped = (any::<Option<bool>>(), -9_i64..9, ".{0,3}", prop::collection::vec(-1e3..1e3, 0..3)).prop_map(
        |(a, b, c, d): (Option<bool>, i64, String, Vec<f64>)| serde_json::json!({ "a": a, "b": { "n": b, "t": [{"c": c, "d": d}] } }),
    );
    prop_oneof![shaped, object(json_value())]
}

/// Objects without members that are null, numbers by value: what NDJSON and typed columns have in common.
fn essence(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let members: BTreeMap<&String, &Json> = members.iter().filter(|(_, v)| !v.is_null()).collect();
            members.into_iter().map(|(k, v)| (k.clone(), essence(v))).collect()
        }
        Json::Array(items) => items.iter().map(essence).collect(),
        Json::Number(n) => match n.as_f64() {
            Some(x) if n.is_f64() && x.fract() == 0.0 => Json::from(x as i64),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// A parsed text, with floats read exactly, which `serde_json` alone does not.
fn parsed(value: json::tape::Value<'_>) -> Json {
    use json::tape::Kind;
    match value.kind() {
        Kind::Null => Json::Null,
        Kind::Bool(value) => value.into(),
        Kind::Int(text) => text.parse::<i64>().unwrap().into(),
        Kind::Float(text) => text.parse::<f64>().unwrap().into(),
        Kind::Text(text) => text.into(),
        Kind::List(items) => items.map(parsed).collect(),
        Kind::Object(members) => members.map(|(name, value)| (name.to_owned(), parsed(value))).collect(),
    }
}

/// What a typed cell says in JSON.
fn rendered(array: &ArrayRef, row: usize, path: &str, json: &[String]) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 if json.iter().any(|known| known == path) => {
            let text = array.as_string::<i32>().value(row);
            let mut tape = json::tape::Tape::default();
            let value = tape.parse(text).unwrap();
            let mut canonical = String::new();
            json::canonical::write(value, &mut canonical);
            assert_eq!(canonical, text, "JSON text is canonical");
            parsed(value)
        }
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| rendered(&items, i, &json::path::item(path), json)).collect()
        }
        DataType::Struct(fields) => {
            let children = fields.iter().zip(array.as_struct().columns());
            let member = |(field, child): (&Arc<Field>, &ArrayRef)| {
                (field.name().clone(), rendered(child, row, &json::path::field(path, field.name()), json))
            };
            children.map(member).collect()
        }
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]
    #[test]
    fn rows_come_out_as_they_went_in(rows in prop::collection::vec(row(), 0..12), batch_size in 1_usize..5) {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let mut files = Files::ndjson(&text);
        files.options.batch_size = batch_size;
        let (opened, batches) = files.read().unwrap();
        let mut found = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let fields = opened.schema.fields().iter().zip(batch.columns());
                let members = fields.map(|(f, a)| (f.name().clone(), rendered(a, row, f.name(), &opened.json_paths)));
                found.push(essence(&members.collect()));
            }
        }
        prop_assert_eq!(found, rows.iter().map(essence).collect::<Vec<_>>());
    }

    #[test]
    fn csv_fields_come_out_as_they_went_in(rows in prop::collection::vec(("[a-z\",\n\r é]{0,6}", "[0-9.eE+-]{0,4}"), 1..10)) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let text: String = rows.iter().map(|(a, b)| format!("{},{}\n", quoted(a), quoted(b))).collect();
        let (_, batches) = Files::csv(&format!("a,b\n{text}")).read().unwrap();
        let mut expected = rows.iter();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let (a, b) = expected.next().unwrap();
                let texts = batch.column(0).as_string::<i32>();
                prop_assert_eq!(if texts.is_null(row) { "" } else { texts.value(row) }, a);
                let column = batch.column(1);
                if column.is_null(row) {
                    prop_assert_eq!("", b);
                } else if let Some(texts) = column.as_string_opt::<i32>() {
                    prop_assert_eq!(texts.value(row), b);
                } else {
                    let value = match column.as_primitive_opt::<Int64Type>() {
                        Some(longs) => longs.value(row) as f64,
                        None => column.as_primitive::<Float64Type>().value(row),
                    };
                    prop_assert_eq!(value, b.parse::<f64>().unwrap());
                }
            }
        }
        prop_assert_eq!(expected.next(), None);
    }
}
