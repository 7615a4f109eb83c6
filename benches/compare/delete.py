"""Deletes a tenth of a table's rows with Spark, as deletion vectors.

Arguments: the warehouse, the table in it (`namespace.name`), the column whose hash chooses the rows.
"""

import importlib.util
import pathlib
import sys

from pyspark.sql import SparkSession

warehouse, table, column = sys.argv[1:]
package = importlib.util.find_spec("snowpark_connect_deps_iceberg").submodule_search_locations[0]
jar = str(next((pathlib.Path(package) / "jars").glob("iceberg-spark-runtime-3.5_2.12-*.jar")))
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jar)
    .config("spark.driver.extraClassPath", jar)
    .config("spark.driver.memory", "4g")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.h", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.h.type", "hadoop")
    .config("spark.sql.catalog.h.warehouse", warehouse)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
spark.sql(f"ALTER TABLE h.{table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
before = spark.table(f"h.{table}").count()
spark.sql(f"DELETE FROM h.{table} WHERE pmod(hash({column}), 10) = 0")
after = spark.table(f"h.{table}").count()
formats = spark.sql(f"SELECT file_format, count(*), sum(record_count) FROM h.{table}.delete_files GROUP BY 1").collect()
print(f"{before} rows, {after} left; delete files: {[tuple(row) for row in formats]}", file=sys.stderr)
