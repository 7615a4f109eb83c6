use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::catalog::MemorySchemaProvider;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::SessionConfig;

use super::*;

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn context() -> SessionContext {
    let mut config =
        SessionConfig::new().with_default_catalog_and_schema("daygrain", "main").with_information_schema(true);
    config.options_mut().sql_parser.enable_ident_normalization = false;
    let context = SessionContext::new_with_config(config);
    let catalog = context.catalog("daygrain").unwrap();
    catalog.register_schema("Archive", Arc::new(MemorySchemaProvider::new())).unwrap();
    let table = |name: &str, fields: Vec<Field>| {
        let table = MemTable::try_new(Arc::new(Schema::new(fields)), vec![vec![]]).unwrap();
        let (schema, name) = name.split_once('.').unwrap_or(("main", name));
        context.register_table(TableReference::partial(schema, name), Arc::new(table)).unwrap();
    };
    let usage = DataType::Struct(Fields::from(vec![Field::new("inputTokens", DataType::Int64, true)]));
    let parts = DataType::List(Arc::new(Field::new("item", usage.clone(), true)));
    let message =
        DataType::Struct(Fields::from(vec![text("Content"), Field::new("Usage", usage, true), text("id"), text("ID")]));
    let messages = vec![
        text("sessionId"),
        text("uuid"),
        Field::new("createdAt", DataType::Int64, true),
        Field::new("message", message, true),
        Field::new("Parts", parts, true),
        text("n"),
        text("N"),
    ];
    table("messages", messages);
    table("Users", vec![text("UserId"), text("sessionID"), text("uuid")]);
    table("users2", vec![text("userid")]);
    table("Twice", vec![text("x")]);
    table("twice", vec![text("y")]);
    table("Archive.Old", vec![text("Day")]);
    context
}

fn resolved(context: &SessionContext, sql: &str) -> Result<Statement> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let state = context.state();
    let mut statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect).unwrap();
    runtime.block_on(resolve(&mut statement, &state))?;
    Ok(statement)
}

/// Resolves a statement and plans it.
#[track_caller]
fn check(sql: &str, expected: &str) {
    let context = context();
    let statement = resolved(&context, sql).unwrap();
    assert_eq!(statement.to_string(), expected, "{sql}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    if let Err(error) = runtime.block_on(context.state().statement_to_plan(statement)) {
        panic!("{sql}\n{expected}\n{error}");
    }
}

/// Resolves a statement that stays as it is.
#[track_caller]
fn untouched(sql: &str) {
    assert_eq!(resolved(&context(), sql).unwrap().to_string(), sql);
}

#[track_caller]
fn fails(sql: &str, candidates: &str) {
    let error = resolved(&context(), sql).unwrap_err();
    assert_eq!(error.code().as_str(), "ambiguous_name", "{error}");
    assert_eq!(error.context(), [("candidates", candidates.to_owned())], "{error}");
}

#[test]
fn columns_and_tables() {
    check("SELECT SESSIONID, UUID FROM Messages", r#"SELECT "sessionId", "uuid" FROM "messages""#);
    check("SELECT sessionId, uuid FROM messages", "SELECT sessionId, uuid FROM messages");
    check("SELECT n, N FROM messages", "SELECT n, N FROM messages");
    check("SELECT M.UUID FROM messages AS m", r#"SELECT "m"."uuid" FROM messages AS m"#);
    check("SELECT MESSAGES.UUID FROM messages", r#"SELECT "messages"."uuid" FROM messages"#);
    check("SELECT * FROM Main.Messages", r#"SELECT * FROM "main"."messages""#);
    check("SELECT * FROM DAYGRAIN.MAIN.MESSAGES", r#"SELECT * FROM "daygrain"."main"."messages""#);
    check("SELECT day FROM archive.old", r#"SELECT "Day" FROM "Archive"."Old""#);
    check("SELECT MAIN.MESSAGES.UUID FROM main.messages", r#"SELECT "main"."messages"."uuid" FROM main.messages"#);
    check("SELECT x FROM Twice", "SELECT x FROM Twice");
    check("SELECT table_name FROM Information_Schema.TABLES", r#"SELECT table_name FROM "information_schema".TABLES"#);
}

#[test]
fn quoted_names_are_taken_to_the_letter() {
    untouched(r#"SELECT "UUID" FROM messages"#);
    untouched(r#"SELECT uuid FROM "Messages""#);
    untouched(r#"SELECT "M".uuid FROM messages AS m"#);
    check(r#"SELECT "uuid", UUID AS b FROM messages"#, r#"SELECT "uuid", "uuid" AS b FROM messages"#);
}

#[test]
fn names_that_fit_several() {
    fails("SELECT * FROM TWICE", "Twice, twice");
    fails("SELECT message.Id FROM messages", "id, ID");
    fails("SELECT SESSIONID FROM messages, Users", "sessionId, sessionID");
    fails(
        "SELECT Á.uuid FROM messages AS \"á\", Users AS ä, Users AS \"Ä\" WHERE Ä.uuid = 'a' AND ä.uuid = 'a' AND SESSIONID = 'a'",
        "sessionId, sessionID",
    );
    fails("SELECT AA.uuid FROM messages AS aa, Users AS Aa", "Aa, aa");
    fails("SELECT 1 AS yY, 2 AS Yy FROM messages ORDER BY YY", "yY, Yy");
    fails(
        "SELECT UUID FROM messages WHERE EXISTS (SELECT X FROM (SELECT 1 AS xX, 2 AS Xx) AS s WHERE XX = 1)",
        "xX, Xx",
    );
}

#[test]
fn clauses() {
    check(
        "SELECT UUID AS Key, count(*) AS Total FROM messages WHERE SESSIONID > 'a' GROUP BY KEY HAVING TOTAL > 1 ORDER BY TOTAL, key",
        r#"SELECT "uuid" AS Key, count(*) AS Total FROM messages WHERE "sessionId" > 'a' GROUP BY "Key" HAVING "Total" > 1 ORDER BY "Total", "Key""#,
    );
    // ORDER BY prefers what the query returns, GROUP BY what it reads.
    check(
        "SELECT createdAt AS Uuid FROM messages ORDER BY UUID",
        r#"SELECT createdAt AS Uuid FROM messages ORDER BY "Uuid""#,
    );
    check(
        "SELECT max(createdAt) AS Uuid FROM messages GROUP BY UUID",
        r#"SELECT max(createdAt) AS Uuid FROM messages GROUP BY "uuid""#,
    );
    check("SELECT UUID FROM messages ORDER BY SESSIONID", r#"SELECT "uuid" FROM messages ORDER BY "sessionId""#);
    check("SELECT DISTINCT ON (UUID) uuid FROM messages", r#"SELECT DISTINCT ON ("uuid") uuid FROM messages"#);
    check(
        "SELECT sum(CREATEDAT) OVER W FROM messages WINDOW w AS (PARTITION BY UUID ORDER BY CREATEDAT)",
        r#"SELECT sum("createdAt") OVER "w" FROM messages WINDOW w AS (PARTITION BY "uuid" ORDER BY "createdAt")"#,
    );
    check(
        "SELECT count(*) FILTER (WHERE UUID = 'a') FROM messages",
        r#"SELECT count(*) FILTER (WHERE "uuid" = 'a') FROM messages"#,
    );
    check(
        "SELECT CASE WHEN UUID IS NULL THEN CAST(CREATEDAT AS VARCHAR) ELSE UUID || 'x' END FROM messages",
        r#"SELECT CASE WHEN "uuid" IS NULL THEN CAST("createdAt" AS VARCHAR) ELSE "uuid" || 'x' END FROM messages"#,
    );
    check(
        "SELECT UUID FROM messages UNION SELECT USERID FROM Users ORDER BY UUID",
        r#"SELECT "uuid" FROM messages UNION SELECT "UserId" FROM Users ORDER BY "uuid""#,
    );
    check(
        "SELECT UUID FROM messages GROUP BY GROUPING SETS ((UUID), ())",
        r#"SELECT "uuid" FROM messages GROUP BY GROUPING SETS (("uuid"), ())"#,
    );
}

#[test]
fn stars() {
    check(
        "SELECT * EXCLUDE (UUID, SESSIONID) FROM messages",
        r#"SELECT * EXCLUDE ("uuid", "sessionId") FROM messages"#,
    );
    check("SELECT * EXCEPT (UUID) FROM messages", r#"SELECT * EXCEPT ("uuid") FROM messages"#);
    check("SELECT M.* FROM messages AS m", r#"SELECT "m".* FROM messages AS m"#);
    check(
        "SELECT * REPLACE (upper(UUID) AS UUID) FROM messages",
        r#"SELECT * REPLACE (upper("uuid") AS "uuid") FROM messages"#,
    );
    check(
        "SELECT SESSIONID FROM (SELECT * EXCLUDE (uuid) FROM messages)",
        r#"SELECT "sessionId" FROM (SELECT * EXCLUDE (uuid) FROM messages)"#,
    );
}

#[test]
fn fields_of_structs() {
    check("SELECT Message.content FROM messages", r#"SELECT "message"."Content" FROM messages"#);
    check("SELECT message.id, message.ID FROM messages", "SELECT message.id, message.ID FROM messages");
    check(
        "SELECT M.MESSAGE.USAGE.INPUTTOKENS FROM messages AS m",
        r#"SELECT "m"."message"."Usage"."inputTokens" FROM messages AS m"#,
    );
    check("SELECT PARTS[1].INPUTTOKENS FROM messages", r#"SELECT "Parts"[1]['inputTokens'] FROM messages"#);
    check(
        "SELECT U.INPUTTOKENS FROM (SELECT message.Usage AS u FROM messages) AS x",
        r#"SELECT "u"."inputTokens" FROM (SELECT message.Usage AS u FROM messages) AS x"#,
    );
    untouched("SELECT message.nothing FROM messages");
}

#[test]
fn names_before_brackets() {
    check("SELECT M.PARTS[1] FROM messages AS m", r#"SELECT "m"."Parts"[1] FROM messages AS m"#);
    check(
        "SELECT M.MESSAGE.USAGE['inputTokens'] FROM messages AS m",
        r#"SELECT "m"."message"['Usage']['inputTokens'] FROM messages AS m"#,
    );
    check(
        "SELECT MAIN.MESSAGES.PARTS[1].INPUTTOKENS FROM messages",
        r#"SELECT "main"."messages"."Parts"[1]['inputTokens'] FROM messages"#,
    );
    check(
        "SELECT message.Usage AS U FROM messages ORDER BY u['inputTokens']",
        r#"SELECT message.Usage AS U FROM messages ORDER BY "U"['inputTokens']"#,
    );
    fails("SELECT m.message.Id['x'] FROM messages AS m", "id, ID");
    untouched("SELECT m.nothing['x'] FROM messages AS m");
    // The columns of `parts` are not known here: a field of the column of that name outside isn't meant.
    untouched("SELECT (SELECT max(Parts.value[1]) FROM generate_series(1, 2) AS Parts) FROM messages");
}

#[test]
fn fields_of_columns_of_an_outer_query() {
    check(
        "SELECT 1 FROM messages AS m WHERE EXISTS (SELECT 1 FROM Users WHERE n = m.message.USAGE.inputTokens)",
        "SELECT 1 FROM messages AS m WHERE EXISTS (SELECT 1 FROM Users WHERE n = m.message['Usage']['inputTokens'])",
    );
}

#[test]
fn joins() {
    check(
        "SELECT USERID FROM messages AS m JOIN Users AS u ON M.SESSIONID = U.SESSIONID",
        r#"SELECT "UserId" FROM messages AS m JOIN Users AS u ON "m"."sessionId" = "u"."sessionID""#,
    );
    check(
        "SELECT USERID FROM messages JOIN users USING (UUID)",
        r#"SELECT "UserId" FROM messages JOIN "Users" ON "messages"."uuid" = "Users"."uuid""#,
    );
    check(
        "SELECT A.UUID, B.UUID FROM messages a, (messages b CROSS JOIN Users)",
        r#"SELECT "a"."uuid", "b"."uuid" FROM messages a, (messages b CROSS JOIN Users)"#,
    );
    check(
        "SELECT 1 FROM messages JOIN Users USING (SESSIONID)",
        r#"SELECT 1 FROM messages JOIN Users ON "messages"."sessionId" = "Users"."sessionID""#,
    );
    // No name is common to both sides, as it is typed between quotes or at all.
    untouched(r#"SELECT 1 FROM messages JOIN Users USING("SESSIONID")"#);
    untouched("SELECT 1 FROM messages JOIN Users USING(n)");
}

#[test]
fn merged_columns() {
    check(
        "SELECT UUID FROM messages m RIGHT JOIN Users u USING (uuid) WHERE uuid > 'a' ORDER BY uuid",
        r#"SELECT "u"."uuid" FROM messages m RIGHT JOIN Users u ON "m"."uuid" = "u"."uuid" WHERE "u"."uuid" > 'a' ORDER BY uuid"#,
    );
    check(
        "SELECT Uuid, count(*) FROM messages m FULL JOIN Users u USING (uuid) GROUP BY uuid",
        r#"SELECT coalesce("m"."uuid", "u"."uuid") AS "uuid", count(*) FROM messages m FULL JOIN Users u ON "m"."uuid" = "u"."uuid" GROUP BY coalesce("m"."uuid", "u"."uuid")"#,
    );
    check(
        "SELECT * FROM main.users2 a LEFT JOIN (SELECT USERID AS userid, uuid FROM Users) USING (userid)",
        r#"SELECT "a"."userid", "__unnamed_1".* EXCLUDE ("userid") FROM main.users2 a LEFT JOIN (SELECT "UserId" AS userid, uuid FROM Users) AS "__unnamed_1" ON "a"."userid" = "__unnamed_1"."userid""#,
    );
    check(
        "SELECT * EXCLUDE (uuid, n) FROM messages NATURAL JOIN Users",
        r#"SELECT "messages"."sessionId", "messages".* EXCLUDE ("sessionId", "uuid", "n"), "Users".* EXCLUDE ("sessionID", "uuid") FROM messages JOIN Users ON "messages"."sessionId" = "Users"."sessionID" AND "messages"."uuid" = "Users"."uuid""#,
    );
    check(
        "SELECT * FROM Users NATURAL LEFT JOIN users2",
        r#"SELECT "Users"."UserId", "Users".* EXCLUDE ("UserId") FROM Users LEFT JOIN users2 ON "Users"."UserId" = "users2"."userid""#,
    );
    check(
        "SELECT * FROM Users NATURAL LEFT JOIN (SELECT 1 AS z) AS v",
        "SELECT * FROM Users LEFT JOIN (SELECT 1 AS z) AS v ON true",
    );
    check(
        "SELECT 1 FROM Users a FULL JOIN Users b USING (uuid) JOIN Users c USING (uuid)",
        r#"SELECT 1 FROM Users a FULL JOIN Users b ON "a"."uuid" = "b"."uuid" JOIN Users c ON coalesce("a"."uuid", "b"."uuid") = "c"."uuid""#,
    );
    check(
        "SELECT 1 FROM Users a RIGHT JOIN Users b USING (uuid) WHERE EXISTS (SELECT 1 FROM users2 WHERE userid = uuid)",
        r#"SELECT 1 FROM Users a RIGHT JOIN Users b ON "a"."uuid" = "b"."uuid" WHERE EXISTS (SELECT 1 FROM users2 WHERE userid = "b"."uuid")"#,
    );
    // What columns `nowhere` has is not known.
    untouched("SELECT 1 FROM messages JOIN nowhere ON true JOIN Users USING(uuid)");
}

#[test]
fn names_that_would_be_the_same() {
    check(
        "SELECT n, n::INT, CAST(n AS INT), messages.n FROM messages",
        r#"SELECT n, n::INT AS "CAST(n AS INT)", CAST(n AS INT) AS "CAST(n AS INT):1", messages.n AS "n:1" FROM messages"#,
    );
    check(
        "SELECT createdAt::VARCHAR, * FROM messages",
        r#"SELECT createdAt::VARCHAR AS "CAST(createdAt AS VARCHAR)", * FROM messages"#,
    );
    untouched("SELECT a.uuid, b.uuid, abs(a.createdAt), abs(b.createdAt), n, N FROM messages AS a, messages AS b");
    untouched("SELECT count(*) FILTER (WHERE n::INT > 1), count(*) FILTER (WHERE n > 1) FROM messages");
}

#[test]
fn subqueries() {
    check(
        "SELECT UUID FROM messages WHERE SESSIONID IN (SELECT SESSIONID FROM USERS WHERE USERID = UUID)",
        r#"SELECT "uuid" FROM messages WHERE "sessionId" IN (SELECT "sessionID" FROM "Users" WHERE "UserId" = "uuid")"#,
    );
    check(
        "SELECT UUID FROM messages m WHERE EXISTS (SELECT 1 FROM users2 WHERE USERID = CREATEDAT AND M.UUID = USERID)",
        r#"SELECT "uuid" FROM messages m WHERE EXISTS (SELECT 1 FROM users2 WHERE "userid" = "createdAt" AND "m"."uuid" = "userid")"#,
    );
    check(
        "SELECT k2, X.V FROM (SELECT UUID AS k, 1 FROM messages) AS x(K2, v) WHERE K2 > '' AND v > 0",
        r#"SELECT "K2", "x"."v" FROM (SELECT "uuid" AS k, 1 FROM messages) AS x (K2, v) WHERE K2 > '' AND v > 0"#,
    );
    check(
        "SELECT (SELECT max(CREATEDAT) FROM messages) FROM Users",
        r#"SELECT (SELECT max("createdAt") FROM messages) FROM Users"#,
    );
    // What is exact further out is meant, although something nearer is like it.
    check(
        "SELECT 1 FROM messages WHERE EXISTS (SELECT 1 FROM Users WHERE sessionId = 'a')",
        "SELECT 1 FROM messages WHERE EXISTS (SELECT 1 FROM Users WHERE sessionId = 'a')",
    );
    check("SELECT COLUMN1 FROM (VALUES (1)) AS v", r#"SELECT "column1" FROM (VALUES (1)) AS v"#);
    check("SELECT A FROM (VALUES (1)) AS v(a)", r#"SELECT "a" FROM (VALUES (1)) AS v (a)"#);
}

#[test]
fn common_table_expressions() {
    check(
        "WITH Recent AS (SELECT UUID AS Id FROM messages) SELECT r.ID FROM recent R",
        r#"WITH Recent AS (SELECT "uuid" AS Id FROM messages) SELECT "R"."Id" FROM "Recent" R"#,
    );
    // A definition hides a table, outside itself.
    check(
        "WITH messages AS (SELECT UUID AS a FROM messages) SELECT A FROM messages",
        r#"WITH messages AS (SELECT "uuid" AS a FROM messages) SELECT "a" FROM messages"#,
    );
    // The same name is meant before one that is like it.
    check(
        "WITH Messages AS (SELECT 1 AS a) SELECT UUID FROM messages",
        r#"WITH Messages AS (SELECT 1 AS a) SELECT "uuid" FROM messages"#,
    );
    check(
        "WITH RECURSIVE c AS (SELECT 1 AS N UNION ALL SELECT n + 1 FROM C WHERE n < 3) SELECT n FROM C",
        r#"WITH RECURSIVE c AS (SELECT 1 AS N UNION ALL SELECT "N" + 1 FROM "c" WHERE "N" < 3) SELECT "N" FROM "c""#,
    );
    check(
        "WITH a AS (SELECT UUID FROM messages), b AS (SELECT UUID FROM A) SELECT UUID FROM B",
        r#"WITH a AS (SELECT "uuid" FROM messages), b AS (SELECT "uuid" FROM "a") SELECT "uuid" FROM "b""#,
    );
}

#[test]
fn statements() {
    check("DESCRIBE Messages", r#"DESCRIBE "messages""#);
    check("EXPLAIN SELECT UUID FROM messages", r#"EXPLAIN SELECT "uuid" FROM messages"#);
    check("EXPLAIN ANALYZE SELECT UUID FROM messages", r#"EXPLAIN ANALYZE SELECT "uuid" FROM messages"#);
    check("SHOW COLUMNS FROM Messages", r#"SHOW COLUMNS FROM "messages""#);
    check("DROP TABLE users", r#"DROP TABLE "Users""#);
    check("DROP SCHEMA ARCHIVE", r#"DROP SCHEMA "Archive""#);
    check(
        "INSERT INTO users (USERID, UUID) SELECT UUID, SESSIONID FROM messages",
        r#"INSERT INTO "Users" ("UserId", "uuid") SELECT "uuid", "sessionId" FROM messages"#,
    );
    check("INSERT INTO users2 (UserId) VALUES ('a')", r#"INSERT INTO users2 ("userid") VALUES ('a')"#);
    check("CREATE VIEW MAIN.V AS SELECT UUID FROM messages", r#"CREATE VIEW "main".V AS SELECT "uuid" FROM messages"#);
    check(
        "CREATE TABLE Messages AS SELECT UUID FROM messages",
        r#"CREATE TABLE Messages AS SELECT "uuid" FROM messages"#,
    );
    check(
        "COPY (SELECT UUID FROM messages) TO 'x' STORED AS CSV",
        r#"COPY (SELECT "uuid" FROM messages) TO x STORED AS CSV"#,
    );
    check(
        "UPDATE messages SET UUID = SESSIONID WHERE CREATEDAT > 1",
        r#"UPDATE messages SET "uuid" = "sessionId" WHERE "createdAt" > 1"#,
    );
    check("DELETE FROM Messages WHERE CREATEDAT > 1", r#"DELETE FROM "messages" WHERE "createdAt" > 1"#);
}

#[test]
fn what_is_not_known_stays() {
    untouched("SELECT NOTHING FROM messages");
    untouched("SELECT UUID FROM nowhere");
    untouched("SELECT VALUE FROM generate_series(1, 3)");
    untouched("SELECT UUID FROM messages, nowhere");
    check(
        "SELECT M.UUID FROM messages AS m, generate_series(1, 2) AS n",
        r#"SELECT "m"."uuid" FROM messages AS m, generate_series(1, 2) AS n"#,
    );
    untouched("SELECT abs(1), UPPER('x'), CAST(1 AS VARCHAR), @Variable FROM Users");
    untouched("SET datafusion.execution.batch_size = 1");
}

#[test]
fn a_table_is_loaded_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let state = context().state();
    let sql = "SELECT * FROM messages a JOIN Main.MESSAGES b ON a.uuid = b.uuid JOIN Users c ON true";
    let mut statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect).unwrap();
    let loaded = runtime.block_on(resolve(&mut statement, &state)).unwrap();
    let mut names: Vec<_> = loaded.iter().map(|(name, _)| name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["daygrain.main.Users", "daygrain.main.messages"]);
}
