//! Over which changes of others is an append rebased?

use super::*;

fn schema_update(fields: impl IntoIterator<Item = iceberg::spec::NestedFieldRef>) -> Vec<TableUpdate> {
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]
}

fn fields_with(change: impl FnOnce(&mut Vec<iceberg::spec::NestedFieldRef>)) -> Vec<TableUpdate> {
    let mut fields = schema().as_struct().fields().to_vec();
    change(&mut fields);
    schema_update(fields)
}

/// Publishes one file while somebody else's updates come first.
async fn overtaken_by(theirs: Vec<TableUpdate>, ours: Vec<TableUpdate>) -> Result<Arc<TableMetadata>, String> {
    let world = World::new(FormatVersion::V3, &[]);
    let base = world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(move |metadata| evolve(metadata, theirs))));
    let mut change = world.change(vec![world.file(2, 1)]);
    change.metadata = Arc::new(evolve(&base.metadata, ours.clone()));
    change.updates = ours;
    match world.publish(change).await {
        Published::Committed { base, .. } => {
            assert_eq!(world.live(&base.metadata, base.metadata.current_snapshot_id()).await.len(), 2);
            Ok(base.metadata)
        }
        Published::Lost { cause, .. } => {
            assert_eq!(cause.code(), Code::CommitConflict);
            Err(cause.context().iter().find(|(key, _)| *key == "reason").unwrap().1.clone())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_append_is_rebased_over_what_does_not_touch_it() {
    let added = overtaken_by(fields_with(|f| f.push(field(4, "x", PrimitiveType::String))), vec![]).await.unwrap();
    assert!(added.current_schema().field_by_name("x").is_some());
    let widened = overtaken_by(fields_with(|f| f[2] = field(3, "n", PrimitiveType::Long)), vec![]).await;
    widened.unwrap();
    overtaken_by(fields_with(|f| f[2] = field(3, "renamed", PrimitiveType::Int)), vec![]).await.unwrap();
    let respec = UnboundPartitionSpec::builder().add_partition_field(2, "s", Transform::Identity).unwrap().build();
    let theirs = vec![TableUpdate::AddSpec { spec: respec }, TableUpdate::SetDefaultSpec { spec_id: -1 }];
    overtaken_by(theirs, vec![]).await.unwrap();
    let property =
        |key: &str| TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), "1".to_owned())]) };
    let both = overtaken_by(vec![property("theirs")], vec![property("ours")]).await.unwrap();
    assert!(both.properties().contains_key("theirs") && both.properties().contains_key("ours"));
    // The same new column from both sides is one column.
    let same = || fields_with(|f| f.push(field(4, "x", PrimitiveType::String)));
    assert_eq!(overtaken_by(same(), same()).await.unwrap().last_column_id(), 4);
}

#[tokio::test]
async fn an_append_is_lost_where_its_rows_would_be_misread() {
    let reason = |theirs| async { overtaken_by(theirs, vec![]).await.unwrap_err() };
    let dropped = fields_with(|f| f.truncate(2));
    assert_eq!(reason(dropped).await, "column `n` was dropped");
    let required = |f: &mut Vec<_>| f[2] = Arc::new(NestedField::required(3, "n", Type::Primitive(PrimitiveType::Int)));
    assert_eq!(reason(fields_with(required)).await, "column `n` became required");
    let retyped = fields_with(|f| f[2] = field(3, "n", PrimitiveType::String));
    assert_eq!(reason(retyped).await, "column `n` changed its type from int to string");
    let new = |f: &mut Vec<_>| f.push(Arc::new(NestedField::required(4, "x", Type::Primitive(PrimitiveType::Int))));
    assert_eq!(reason(fields_with(new)).await, "a required column `x` was added");
    // Two columns under one new id.
    let theirs = fields_with(|f| f.push(field(4, "theirs", PrimitiveType::String)));
    let ours = fields_with(|f| f.push(field(4, "ours", PrimitiveType::String)));
    let clash = overtaken_by(theirs, ours).await.unwrap_err();
    assert_eq!(clash, "somebody changed the schema, and so does this change");
}

#[tokio::test]
async fn a_table_that_is_another_now_is_not_written_to() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let change = world.change(vec![world.file(2, 1)]);
    world.catalog.replace(|_| new_metadata(FormatVersion::V3, &[], "ts_day"));
    assert_eq!(lost(world.publish(change.clone()).await).0.code(), Code::CommitConflict);
    world.catalog.drop_table(&world.ident, false).await.unwrap();
    assert_eq!(lost(world.publish(change).await).0.code(), Code::CommitConflict);
}

#[tokio::test]
async fn a_sort_order_the_table_lost_is_not_claimed() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let mut change = world.change(vec![world.file(2, 1)]);
    // Files sorted by an order that only our metadata knows.
    let by_n = SortField::builder()
        .source_id(3)
        .transform(Transform::Identity)
        .direction(SortDirection::Ascending)
        .null_order(NullOrder::Last)
        .build();
    let sort_order = SortOrder::builder().with_order_id(2).with_fields(vec![by_n]).build_unbound().unwrap();
    change.metadata = Arc::new(evolve(&change.metadata, vec![TableUpdate::AddSortOrder { sort_order }]));
    change.files = vec![
        crate::metadata::rebuild(&change.files[0], |file| {
            file.sort_order_id(2);
        })
        .unwrap(),
    ];
    let (base, id) = committed(world.publish(change).await);
    let orders: Vec<_> = world.live(&base.metadata, id).await.iter().map(|entry| entry.file.sort_order_id()).collect();
    assert_eq!(orders, [Some(0), Some(1)]);
}
