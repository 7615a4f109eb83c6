//! What follows from everything that was found: one schema, and the portions to read?

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::input::exec::Portion;
use crate::input::fit::{self, Fit};
use crate::input::source::Source;
use crate::input::survey::{File, Found, Terms};
use crate::input::types::{Named, Type, Unit, schema_of};
use crate::input::zones::Zones;
use crate::input::{Options, columnar, csv, json};

/// What was decided.
#[derive(Debug)]
pub(super) struct Decided {
    /// Of all input.
    pub(super) schema: SchemaRef,
    /// Paths that are kept as JSON text.
    pub(super) json: Vec<String>,
    /// Columns of the input that are in no schema because they hold nothing but nulls.
    pub(super) untyped: Vec<String>,
    /// The first contradiction to the types that rule.
    pub(super) clash: Option<Error>,
    /// Columns of all NDJSON input.
    ndjson: Arc<[Named]>,
    /// Columns of all CSV input.
    csv: Arc<[Named]>,
}

/// Decides the schema of all input.
///
/// Errors: `iceberg_schema_incompatible` for files whose types don't go together, `unsupported_type` for text that
/// arrives in a column it can't fill, `input_value_invalid` for primary timestamps that don't go together.
pub(super) fn decide(found: &Found, sources: &[Source], terms: &Terms, options: &Options) -> Result<Decided> {
    let ndjson = json::resolve::resolve(&found.rows, &terms.ruling, sources);
    let surveys = found.files.iter().filter_map(|file| match file {
        File::Csv(survey) => Some(survey),
        _ => None,
    });
    let csv = csv::resolve(surveys, &terms.ruling, &terms.json, sources)?;
    terms.ruling.check(ndjson.columns.iter().chain(&csv.columns).map(|column| column.name.as_str()))?;

    let mut schemas: Vec<(&str, SchemaRef)> = Vec::new();
    if found.files.iter().any(|file| matches!(file, File::Ndjson(_))) {
        schemas.push(("the NDJSON input", schema_of(&ndjson.columns)));
    }
    if found.files.iter().any(|file| matches!(file, File::Csv(_))) {
        schemas.push(("the CSV input", schema_of(&csv.columns)));
    }
    schemas.extend(columnar_schemas(found, sources, terms, options)?);
    let union = fit::union(schemas.iter().map(|(name, schema)| (*name, schema.as_ref())))?;

    let schema = with_declared(&union, options.declared.as_deref());
    let fields = schemas.iter().flat_map(|(_, schema)| schema.fields());
    let null = fields.filter(|field| *field.data_type() == DataType::Null).map(|field| field.name().clone());
    let mut seen = HashSet::new();
    let untyped = ndjson.untyped.into_iter().chain(null);
    let untyped = untyped.filter(|name| schema.column_with_name(name).is_none() && seen.insert(name.clone())).collect();
    let mut seen = HashSet::new();
    let json = ndjson.json.into_iter().chain(csv.json).filter(|path| seen.insert(path.clone())).collect();
    Ok(Decided {
        schema: Arc::new(schema),
        json,
        untyped,
        clash: ndjson.clash.or(csv.clash),
        ndjson: ndjson.columns.into(),
        csv: csv.columns.into(),
    })
}

impl Decided {
    /// The parts of all files, in their order.
    pub(super) fn portions(&self, found: &Found, sources: &[Source]) -> Vec<Arc<dyn Portion>> {
        let fit = |own: &Schema| Arc::new(Fit::new(own, Arc::clone(&self.schema)));
        let ndjson = fit(&schema_of(&self.ndjson));
        let csv = fit(&schema_of(&self.csv));
        let mut portions: Vec<Arc<dyn Portion>> = Vec::new();
        for (file, source) in found.files.iter().zip(sources) {
            match file {
                File::Ndjson(marks) => portions.extend(marks.stretches(source).into_iter().map(|stretch| {
                    let (source, columns, fit) = (source.clone(), Arc::clone(&self.ndjson), Arc::clone(&ndjson));
                    Arc::new(json::Rows { source, stretch, columns, fit }) as Arc<dyn Portion>
                })),
                File::Csv(survey) => {
                    let positions: Arc<[usize]> = survey.positions(&self.csv).into();
                    portions.extend(survey.marks.stretches(source).into_iter().map(|stretch| {
                        let (source, columns, fit) = (source.clone(), Arc::clone(&self.csv), Arc::clone(&csv));
                        let positions = Arc::clone(&positions);
                        Arc::new(csv::Rows { source, stretch, columns, positions, fit }) as Arc<dyn Portion>
                    }));
                }
                File::Columnar(survey) => {
                    let fit = fit(&survey.schema);
                    portions.extend(survey.parts.iter().map(|part| {
                        let (source, part, fit) = (source.clone(), part.clone(), Arc::clone(&fit));
                        Arc::new(columnar::Rows { source, part, fit }) as Arc<dyn Portion>
                    }));
                }
            }
        }
        portions
    }
}

/// The schema that each columnar file's batches take.
fn columnar_schemas<'s>(
    found: &Found,
    sources: &'s [Source],
    terms: &Terms,
    options: &Options,
) -> Result<Vec<(&'s str, SchemaRef)>> {
    let mut zones: Option<Zones> = None;
    let surveys = found.files.iter().zip(sources).filter_map(|(file, source)| match file {
        File::Columnar(survey) => Some((survey, source)),
        _ => None,
    });
    for (survey, _) in surveys.clone() {
        if let Some(theirs) = &survey.zones {
            zones.get_or_insert_default().merge(theirs.clone());
        }
    }
    if let (Some(zones), Some(name)) = (&zones, &terms.timestamp) {
        zones.check(name, sources)?;
    }
    let field = |field: &FieldRef| {
        let own = fit::plain(field.data_type());
        let ty = match column_of(options, field.name()) {
            Some(rule) if is_timestamp_text(options, field, rule) => rule.clone(),
            Some(rule) => fit::ruled(&own, rule),
            None if is_primary(options, field) && fit::is_text(&own) => {
                let zoned = zones.as_ref().is_none_or(Zones::zoned);
                Type::Timestamp { unit: Unit::Micros, zoned }.arrow()
            }
            None => own,
        };
        Arc::new(field.as_ref().clone().with_data_type(ty))
    };
    let ruled = |schema: &Schema| Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Fields>()));
    Ok(surveys.map(|(survey, source)| (source.shown(), ruled(&survey.schema))).collect())
}

fn is_primary(options: &Options, field: &Field) -> bool {
    options.primary_timestamp.as_ref() == Some(field.name())
}

fn is_timestamp_text(options: &Options, field: &Field, rule: &DataType) -> bool {
    is_primary(options, field) && fit::is_text(field.data_type()) && matches!(rule, DataType::Timestamp(..))
}

/// The type that the table, or else the declaration, gives a column.
fn column_of<'o>(options: &'o Options, name: &str) -> Option<&'o DataType> {
    let field = |schema: &'o SchemaRef| schema.column_with_name(name).map(|(_, field)| field.data_type());
    options.table.as_ref().and_then(field).or_else(|| options.declared.as_ref().and_then(field))
}

/// Declared columns first, whether or not they arrive; then the others.
fn with_declared(union: &Schema, declared: Option<&Schema>) -> Schema {
    let Some(declared) = declared else { return union.clone() };
    let first = declared.fields().iter().map(|field| match union.column_with_name(field.name()) {
        Some((_, arrived)) => Arc::new(arrived.clone()),
        None => {
            let ty = Type::of(field.data_type()).map_or_else(|| fit::plain(field.data_type()), |ty| ty.arrow());
            Arc::new(Field::new(field.name(), ty, true))
        }
    });
    let others = union.fields().iter().filter(|field| declared.column_with_name(field.name()).is_none());
    Schema::new(first.chain(others.cloned()).collect::<Fields>())
}
