"""What a table's rows should be, and whether they are: suites, compiled rules, verdicts."""
