"""TiCDC changefeeds into Iceberg tables, exact and checked."""
