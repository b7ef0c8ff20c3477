"""Small frames without a job: Spark's own expressions, evaluated in the driver (decision 012)."""
