//! Which SQL is read?
//!
//! `sqlparser`'s generic dialect, but for three things that it reads differently from what people mean, and one that
//! the engine fails at:
//!
//! ```text
//!                                 generic                            here
//! raw -> 'a'                      a function of `raw`                the value at `a` of raw
//! raw ->> 'a' = 'b'               raw ->> ('a' = 'b')                (raw ->> 'a') = 'b'
//! a IS DISTINCT FROM b AND c      a IS DISTINCT FROM (b AND c)       (a IS DISTINCT FROM b) AND c
//! a IN (SELECT FROM t)            rows without a column              refused
//! ```

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// The dialect of statements.
#[derive(Debug, Default)]
pub(super) struct Sql {
    /// Versions may follow the names of tables: only where there is one, since some words mean something else then.
    versions: bool,
    /// How often an expression may still begin.
    patience: Cell<usize>,
}

/// How often an expression may begin in a statement: some times for each token, and often enough in a short one that what is
/// wrong with it is found.
const BEGINNINGS: (usize, usize) = (64, 10_000);

impl Sql {
    /// For a statement of so many tokens.
    pub(super) fn of(tokens: usize, versions: bool) -> Sql {
        let (of_each, of_all) = BEGINNINGS;
        Sql { versions, patience: Cell::new(tokens.saturating_mul(of_each).saturating_add(of_all)) }
    }
}

macro_rules! as_generic {
    ($($name:ident)*) => { $(fn $name(&self) -> bool { GenericDialect.$name() })* };
}

impl Dialect for Sql {
    /// The parser takes it for the generic dialect where it asks which one it reads.
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    /// Operators that reach into JSON bind more tightly than arithmetic, as in SQLite: between `AT TIME ZONE` and `::`.
    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::PgOther => 45,
            other => GenericDialect.prec_value(other),
        }
    }

    /// Where the parser meets an error it goes back and reads what is before it in another way, and in each way all that is
    /// inside it in each of its ways: of `a.b.c[` twice as much for every dot more.
    fn parse_prefix(&self, _: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        match self.patience.get().checked_sub(1) {
            Some(left) => {
                self.patience.set(left);
                None
            }
            // The one error that it doesn't go back from.
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        let differs = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        if !differs && !parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            return None;
        }
        let left = Box::new(left.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match differs {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    fn supports_table_versioning(&self) -> bool {
        self.versions
    }

    // What the generic dialect of sqlparser 0.61 says yes to, without functions that are written with an arrow
    // and without a SELECT of nothing.
    as_generic! {
        supports_unicode_string_literal
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_left_associative_joins_without_parens
        supports_connect_by
        supports_match_recognize
        supports_pipe_operator
        supports_start_transaction_modifier
        supports_window_function_null_treatment_arg
        supports_dictionary_syntax
        supports_window_clause_named_window_reference
        supports_parenthesized_set_variables
        supports_select_wildcard_except
        support_map_literal_syntax
        allow_extract_custom
        allow_extract_single_quotes
        supports_extract_comma_syntax
        supports_create_view_comment_syntax
        supports_parens_around_table_factor
        supports_values_as_table_factor
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_limit_comma
        supports_from_first_select
        supports_projection_trailing_commas
        supports_asc_desc_in_column_definition
        supports_try_convert
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_assignment_operator
        supports_struct_literal
        supports_nested_comments
        supports_multiline_comment_hints
        supports_user_host_grantee
        supports_string_escape_constant
        supports_array_typedef_with_brackets
        supports_match_against
        supports_set_names
        supports_comma_separated_set_assignments
        supports_filter_during_aggregation
        supports_select_wildcard_exclude
        supports_data_type_signed_suffix
        supports_interval_options
        supports_quote_delimited_string
        supports_select_wildcard_replace
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_optimize_table
        supports_install
        supports_detach
        supports_prewhere
        supports_with_fill
        supports_limit_by
        supports_interpolate
        supports_settings
        supports_select_format
        supports_comment_optimizer_hint
        supports_constraint_keyword_without_name
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::visit_expressions_mut;

    use super::*;

    /// What is read, without the parentheses.
    fn read(sql: &str) -> Expr {
        let mut read = Parser::new(&Sql::of(sql.len(), false)).try_with_sql(sql).unwrap().parse_expr().unwrap();
        let _ = visit_expressions_mut(&mut read, |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = inner.as_ref().clone();
            }
            ControlFlow::<()>::Continue(())
        });
        read
    }

    #[test]
    fn operators_bind_as_people_mean() {
        for (sql, meant) in [
            ("raw -> 'a' = 1", "(raw -> 'a') = 1"),
            ("raw -> 'a' ->> 0 = 'b' AND x", "(((raw -> 'a') ->> 0) = 'b') AND x"),
            ("raw ->> 'a' IS NULL", "(raw ->> 'a') IS NULL"),
            ("raw ->> 'a' LIKE 'b%'", "(raw ->> 'a') LIKE 'b%'"),
            ("raw ->> 'a' IN ('b')", "(raw ->> 'a') IN ('b')"),
            ("x || raw ->> 'a'", "x || (raw ->> 'a')"),
            ("raw ->> 'a'::text", "raw ->> ('a'::text)"),
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c", "(a IS NOT DISTINCT FROM b) OR c"),
            ("a IS DISTINCT FROM b + 1", "a IS DISTINCT FROM (b + 1)"),
            ("NOT a IS DISTINCT FROM b", "NOT (a IS DISTINCT FROM b)"),
        ] {
            assert_eq!(read(sql), read(meant), "{sql}");
        }
        assert_ne!(read("a IS DISTINCT FROM b AND c"), read("a IS DISTINCT FROM (b AND c)"));
    }
}
