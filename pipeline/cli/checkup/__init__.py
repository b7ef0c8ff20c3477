"""What `doctor` looks at: a module for each part of the set-up, each a generator of findings."""
