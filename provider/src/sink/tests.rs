//! (below)
use iceberg::spec::TableMetadata;
pub(super) fn metadata_with(_p: &[(&str, &str)]) -> TableMetadata {
    todo!()
}
