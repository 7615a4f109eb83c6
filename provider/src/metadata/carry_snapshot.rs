//! What of a snapshot is filled in or carried that the format library wants to have otherwise?
//!
//! ```text
//!   no summary, or one without an operation ▶ `overwrite`, which promises least
//!   no sequence number                      ▶ 0           a snapshot of version 1 in a table that was upgraded since
//!   `manifests`, no `manifest-list`         ▶ a list's location that names them, and keeps the table from being written
//!   both                                    ▶ the list
//! ```
//!
//! Version 1 let a snapshot name its manifests in the metadata file. They go where the library has room for one location, so
//! that whoever asks for a snapshot's list finds them there.
// @spec V5

use serde_json::{Map, Value as Json};

/// Begins what stands for the location of a manifest list where there is none; no store has such a scheme.
const NAMED: &str = "manifests-without-a-list:";

/// What became of a snapshot.
#[derive(Default)]
pub(super) struct Carried {
    pub(super) changed: bool,
    /// Why the table can't be written.
    pub(super) reason: Option<String>,
}

/// Fills in a snapshot of a table of the format version `version`.
pub(super) fn carry(snapshot: &mut Map<String, Json>, version: i64) -> Carried {
    let mut carried = Carried::default();
    let summary = snapshot.entry("summary").or_insert_with(|| Json::Object(Map::new()));
    if let Some(summary) = summary.as_object_mut().filter(|summary| !summary.contains_key("operation")) {
        carried.changed = true;
        summary.insert("operation".to_owned(), Json::from("overwrite"));
    }
    if version > 1 && !snapshot.contains_key("sequence-number") {
        carried.changed = true;
        snapshot.insert("sequence-number".to_owned(), Json::from(0));
    }
    if snapshot.get("manifest-list").is_some_and(|list| !list.is_null()) {
        carried.changed |= snapshot.remove("manifests").is_some();
    } else if let Some(manifests) = snapshot.get("manifests").filter(|manifests| names(manifests).is_some()) {
        let location = format!("{NAMED}{manifests}");
        let id = snapshot.get("snapshot-id").map(Json::to_string).unwrap_or_default();
        carried.changed = true;
        carried.reason = Some(format!("its snapshot {id} names its manifests without a manifest list"));
        snapshot.insert("manifest-list".to_owned(), Json::from(location));
        snapshot.remove("manifests");
    }
    carried
}

/// The manifests that a snapshot names itself, by what the format library takes for the location of its list; `None` where
/// there is a list.
pub(super) fn manifests(location: &str) -> Option<Vec<String>> {
    names(&serde_json::from_str(location.strip_prefix(NAMED)?).ok()?)
}

fn names(manifests: &Json) -> Option<Vec<String>> {
    manifests.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn carried(snapshot: Json, version: i64) -> (Json, Carried) {
        let Json::Object(mut snapshot) = snapshot else { panic!("{snapshot} is no snapshot") };
        let carried = carry(&mut snapshot, version);
        (Json::Object(snapshot), carried)
    }

    #[test]
    fn manifests_go_where_the_list_is_looked_for() {
        for named in [json!([]), json!(["s3://b/m1.avro", "s3://b/\"é.avro"])] {
            let (snapshot, carried) = carried(json!({"snapshot-id": 7, "manifests": named}), 1);
            assert_eq!(carried.reason.as_deref(), Some("its snapshot 7 names its manifests without a manifest list"));
            let location = snapshot["manifest-list"].as_str().unwrap();
            assert_eq!(json!(manifests(location).unwrap()), named);
            assert!(snapshot.get("manifests").is_none());
        }
        assert_eq!(manifests("s3://b/snap-1.avro"), None);
        // What is no list of names is left to be refused.
        let (snapshot, carried) = carried(json!({"snapshot-id": 7, "manifests": [1]}), 1);
        assert!(carried.reason.is_none() && snapshot.get("manifest-list").is_none());
    }

    #[test]
    fn a_list_goes_before_manifests() {
        let (snapshot, carried) = carried(json!({"manifest-list": "l.avro", "manifests": ["m.avro"]}), 1);
        assert!(carried.changed && carried.reason.is_none());
        assert_eq!(snapshot["manifest-list"], "l.avro");
        assert!(snapshot.get("manifests").is_none());
    }

    #[test]
    fn an_older_snapshot_of_an_upgraded_table_has_the_sequence_number_0() {
        let old = json!({"manifest-list": "l.avro", "summary": {"operation": "append"}});
        assert_eq!(carried(old.clone(), 3).0["sequence-number"], 0);
        let (snapshot, carried) = carried(old.clone(), 1);
        assert!(!carried.changed && snapshot == old);
    }
}
