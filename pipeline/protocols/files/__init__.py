"""What the protocols of files have in common, whatever a line of them is: `head.py` says what a record is."""
