"""What a table's rows should be, and whether they are: suites, compiled rules, verdicts.

Other rooms use `suites` (what a user wrote, with severities), `rulebook` (the rules of each table), `rules` (a rule,
its result, a judged frame), `gate` (what a verdict does to a batch) and `samples`. Begin with `rules.RuleSet`.
"""
