"""Histories by commit ts that once went wrong, cut down to the steps that matter."""

QUIET = {"crash": None, "others": (), "fault": None}
BY_TOPIC = ("the_world_is", {"shared": False, "policy": "keep"})
ALL = ("a_batch_is_taken", {"limit": (9,), **QUIET})

KNOWN = {
    # not a fault of the product: rows are sent again after newer ones of their key, before either is shown
    "sent again before it was shown": [
        ("rows_change", {"name": "c", "key": 0, "what": "put", "also": "a", "other": 2}),
        ("rows_change", {"name": "a", "key": 2, "what": "put", "also": None, "other": 0}),
        ALL,
        ("a_watermark_is_sent", {"which": "all"}),
        ("a_batch_is_taken", {"limit": (0, 2), **QUIET}),
        ("the_changefeed_restarts", {"back": 3}),
        ("a_batch_is_taken", {"limit": (4, 0, 0, 0), **QUIET}),
    ],
    # what a try that died had let in stayed open where the second try was resolved less far: it came in twice
    "let in by a try that died": [
        BY_TOPIC,
        ALL,
        ("a_column_changes", {"name": "b", "what": "add", "pick": 1, "key": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 0, "others": (), "fault": None}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ALL,
        ("a_batch_is_taken", {"limit": (9,), "crash": 3, "others": (5,), "fault": None}),
    ],
    # the second RENAME, in the topic of the name between, was taken for one of another cluster's table
    "away and back in one batch": [
        ("the_world_is", {"shared": False, "policy": "drop"}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ALL,
        ("names_change", {"what": "away and back", "name": "a"}),
    ],
    # a release noted the topic of a statement as the only one of a table that had no rows
    "released with a statement of another topic": [
        BY_TOPIC,
        ALL,
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("names_change", {"what": "away and back", "name": "b"}),
        ("a_batch_is_taken", {"limit": (2, 0), **QUIET}),
    ],
    # a statement was judged by the names that a try which died had given
    "a swap after a column was renamed": [
        BY_TOPIC,
        ("a_watermark_is_sent", {"which": "all"}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 2}),
        ("a_column_changes", {"name": "a", "what": "rename", "pick": 0, "key": 0}),
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_batch_is_taken", {"limit": (4, 4, 4, 4), **QUIET}),
        ("a_batch_is_taken", {"limit": (2, 0), "crash": 22, "others": (), "fault": None}),
    ],
    # a topic that had been read to its end was taken for one that came later: of two RENAMEs of one commit ts one was
    # applied alone, and the rows of two tables were mixed
    "a swap of which one topic is read first": [
        BY_TOPIC,
        ("a_column_changes", {"name": "b", "what": "add", "pick": 1, "key": 0}),
        ALL,
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_batch_is_taken", {"limit": (0, 0, 4, 4), **QUIET}),
    ],
    # the same of topics that are all there before
    "a chain of RENAMEs of which one topic is read first": [
        BY_TOPIC,
        ("names_change", {"what": "create", "name": "c"}),
        ALL,
        ("names_change", {"what": "drop", "name": "c"}),
        ALL,
        ("a_column_changes", {"name": "a", "what": "add", "pick": 1, "key": 0}),
        ALL,
        ("names_change", {"what": "chain", "name": "a"}),
        ("a_batch_is_taken", {"limit": (4, 4, 0, 0), **QUIET}),
    ],
    # the second half of a chain was put first by the names that the first half had given, and was passed over
    "a chain of RENAMEs of which a try that died had applied one half": [
        BY_TOPIC,
        ALL,
        ("names_change", {"what": "chain", "name": "a"}),
        ("a_batch_is_taken", {"limit": (1,), "crash": 11, "others": (), "fault": None}),
    ],
    # a topic that is new because a table was renamed into it counted as one that comes late, with a history
    "a swap by way of a new topic of which the others are read first": [
        BY_TOPIC,
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": None, "other": 0}),
        ("names_change", {"what": "chain", "name": "a"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 0, "others": (), "fault": None}),
        ("names_change", {"what": "swap", "name": "b"}),
        ALL,
        ("a_batch_is_taken", {"limit": (0, 0, 4, 4), **QUIET}),
    ],
    # a second try that had read less than the first noted how far that one was: a DDL event never came to ddl_history
    "what a try that died has noted is kept": [
        BY_TOPIC,
        ("names_change", {"what": "rename", "name": "a"}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 12, "others": (), "fault": None}),
        ("names_change", {"what": "swap", "name": "b"}),
        ALL,
        ("a_batch_is_taken", {"limit": (0, 0, 4, 4), **QUIET}),
    ],
    # rows under a name between two RENAMEs held their table, and every release did again
    "rows under a name that was given and taken": [
        BY_TOPIC,
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": None, "other": 0}),
        ALL,
        ("names_change", {"what": "rename", "name": "b"}),
        ("names_change", {"what": "rename", "name": "c"}),
    ],
    # rows that a try which died had held back were in its range and not in its append: they went to quarantine
    "held back by a try that died": [
        ("the_changefeed_restarts", {"back": 1}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 0}),
        ("a_column_changes", {"name": "a", "what": "add", "pick": 1, "key": 0}),
        ("a_batch_is_taken", {"limit": (3,), **QUIET}),
        ("a_batch_is_taken", {"limit": (6, 0), "crash": None, "others": (), "fault": ("b", "evolve")}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
    ],
    "held back by a try that died, of two tables": [
        ("a_column_changes", {"name": "a", "what": "add", "pick": 1, "key": 1}),
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": None, "other": 0}),
        ("a_column_changes", {"name": "b", "what": "add", "pick": 1, "key": 0}),
        ("a_batch_is_taken", {"limit": (4, 4, 0, 0), **QUIET}),
        ("a_batch_is_taken", {"limit": (2, 0), **QUIET}),
        ("a_batch_is_taken", {"limit": (4, 4, 0, 0), "crash": None, "others": (), "fault": ("a", "evolve")}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
    ],
    # a statement about the table that a swap of the batch gives a name to waited with the one that is held, for good
    "a swap with a held table": [
        ALL,
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("a_watermark_is_sent", {"which": "all"}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 5, "others": (), "fault": None}),
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_column_changes", {"name": "b", "what": "add", "pick": 0, "key": 0}),
    ],
    # a try had died in the middle of a RENAME, the next one was resolved less far, and its cut called itself exact
    "half a rename": [
        BY_TOPIC,
        ("a_column_changes", {"name": "a", "what": "add", "pick": 0, "key": 0}),
        ALL,
        ("names_change", {"what": "away and back", "name": "b"}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 4, "others": (), "fault": None}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ALL,
    ],
    # the ledger counted no changes of a table that only a try which died had let in
    "counted of a try that died": [
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 0}),
        ("a_batch_is_taken", {"limit": (6, 0), **QUIET}),
        ("a_batch_is_taken", {"limit": (9,), "crash": None, "others": (), "fault": ("a", "evolve")}),
    ],
    # a second try counted the DDL events that the first had held with their table twice
    "a DDL event that a try which died has held": [
        ("a_column_changes", {"name": "b", "what": "add", "pick": 0, "key": 0}),
        ("a_batch_is_taken", {"limit": (2, 2), **QUIET}),
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 3, "others": (), "fault": None}),
    ],
    # rows of a table that the same batch drops were in quarantine as the next table's of that name
    "in quarantine when its table is dropped": [
        ("the_suite_changes", {"suite": ("set more aside",)}),
        ("rows_change", {"name": "b", "key": 1, "what": "put", "also": None, "other": 0}),
        ("names_change", {"what": "drop", "name": "b"}),
        ALL,
    ],
    # a row that was too large let what was in quarantine of its table go to the one that had had its name
    "too large when names have changed": [
        ("the_suite_changes", {"suite": ("set aside",)}),
        ("rows_change", {"name": "b", "key": 2, "what": "put", "also": None, "other": 0}),
        ALL,
        ("a_row_is_too_large", {"name": "b", "key": 0}),
        ("names_change", {"what": "swap", "name": "a"}),
        ("names_change", {"what": "swap", "name": "a"}),
    ],
    # of two keys that changed places one update came late, and took away what the other had left
    "half a swap of keys is redriven": [
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ("the_suite_changes", {"suite": ("set aside",)}),
        ("rows_change", {"name": "a", "key": 1, "what": "put", "also": "b", "other": 0}),
        ("a_key_moves", {"name": "a", "key": 0, "to": 1, "split": False, "swap": True}),
        ("a_batch_is_taken", {"limit": (2, 6), **QUIET}),
    ],
    # not a fault of the product: a key moves away while an older change of it is in quarantine
    "a key that has moved away": [
        ("the_suite_changes", {"suite": ("set aside",)}),
        ("rows_change", {"name": "a", "key": 2, "what": "put", "also": None, "other": 0}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("a_key_moves", {"name": "a", "key": 2, "to": 0, "split": False, "swap": False}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
    ],
    # not faults of the product: exchanges that end in the middle or wait, and what is said of their tables then
    "an exchange that dies in the middle": [
        ("the_world_is", {"shared": True, "policy": "keep", "partitioned": True}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 1}),
        ALL,
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_watermark_is_sent", {"which": "all"}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 33, "others": (), "fault": None}),
    ],
    "columns change after an exchange in one batch": [
        ("the_world_is", {"shared": True, "policy": "keep", "partitioned": True}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 1}),
        ALL,
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_column_changes", {"name": "b", "what": "rename", "pick": 0, "key": 0}),
    ],
    "columns change after an exchange that waits": [
        ("the_world_is", {"shared": True, "policy": "keep", "partitioned": True}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 1}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("a_column_changes", {"name": "a", "what": "rename", "pick": 0, "key": 0}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
    ],
    "a partner that is held and dropped": [
        ("the_world_is", {"shared": True, "policy": "drop", "partitioned": True}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "b", "other": 1}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("names_change", {"what": "drop", "name": "b"}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
    ],
    # a row was superseded by a change that its table did not show yet: an exact cut before that lacked it
    "superseded by what is not shown yet": [
        ("the_suite_changes", {"suite": ("set aside",)}),
        ("rows_change", {"name": "a", "key": 2, "what": "put", "also": None, "other": 0}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("rows_change", {"name": "a", "key": 2, "what": "put", "also": None, "other": 0}),
        ALL,
        ("what_was_set_aside_is_redriven", {"what": "quarantine", "crash": None, "then": None}),
        ("rows_change", {"name": "a", "key": 1, "what": "put", "also": None, "other": 0}),
        ("a_watermark_is_sent", {"which": "all"}),
        ("a_batch_is_taken", {"limit": (6, 0), **QUIET}),
    ],
    # not faults of the product: what else shows a planted fault
    "a stream that comes later": [
        ("another_changefeed_comes", {"name": "d"}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": "d", "other": 0}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("another_changefeed_comes", {"name": "d"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    "a second try with shorter batches": [
        ALL,
        ("the_changefeed_restarts", {"back": 1}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 7, "others": (), "fault": None}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    "an exchange with a table that a rule holds": [
        ("the_world_is", {"shared": True, "policy": "drop", "partitioned": True}),
        ("a_rule_holds_tables", {"suite": ("wait",)}),
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": 3}),
        ALL,
    ],
    "keys change places": [
        ("rows_change", {"name": "a", "key": 3, "what": "put", "also": None, "other": 0}),
        ("rows_change", {"name": "a", "key": 4, "what": "put", "also": None, "other": 0}),
        ("a_key_moves", {"name": "a", "key": 4, "to": 3, "split": False, "swap": True}),
    ],
    # not a fault of the product: a copy of what is in quarantine comes in, and shows nothing
    "sent again while it is in quarantine": [
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": "b", "other": 1}),
        ("the_suite_changes", {"suite": ("set aside",)}),
        ("a_watermark_is_sent", {"which": "all"}),
        ALL,
        ("the_changefeed_restarts", {"back": 1}),
    ],
    # the same with a checkpoint that was lost, and a batch that is shorter than the one before
    "a shorter batch after DDL events": [
        ("the_world_is", {"shared": False, "policy": "drop"}),
        ("the_changefeed_restarts", {"back": 1}),
        ("names_change", {"what": "away and back", "name": "b"}),
        ("rows_change", {"name": "a", "key": 1, "what": "put", "also": "b", "other": 0}),
        ("a_batch_is_taken", {"limit": (0, 4, 4, 4), **QUIET}),
        ("names_change", {"what": "recreate", "name": "b"}),
        ("a_batch_is_taken", {"limit": (2, 2), **QUIET}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 5, "others": (), "fault": None}),
        ("a_watermark_is_sent", {"which": "all"}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (2, 0), **QUIET}),
    ],
    # three tries of a batch, of which two hold copies of one DDL event: they were counted as rows and as messages
    "copies of a held DDL event in two tries": [
        ("the_world_is", {"shared": True, "policy": "keep", "partitioned": True}),
        ALL,
        ("columns_change_alike", {"what": "drop", "pick": 0}),
        ("a_rule_holds_tables", {"suite": ("wait",)}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 14, "others": (), "fault": None}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("the_changefeed_restarts", {"back": 3}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 13, "others": (), "fault": None}),
    ],
    # not a fault of the product: a death between the two tables of an exchange
    "an exchange that one table shows": [
        ("the_world_is", {"shared": True, "policy": "keep", "partitioned": True}),
        ("rows_change", {"name": "a", "key": 0, "what": "put", "also": None, "other": 0}),
        ("rows_change", {"name": "b", "key": 1, "what": "put", "also": None, "other": 0}),
        ALL,
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 31, "others": (), "fault": None}),
        ALL,
    ],
    # a second try of DROP DATABASE let the held rows of a table go that was made after it
    "a database goes again after a table of its next life is held": [
        ALL,
        ("a_database_goes", {"name": "c", "again": True}),
        ("a_batch_is_taken", {"limit": (0, 2), "crash": 0, "others": (), "fault": None}),
        ALL,
        ("something_strange_is_done", {"name": "c", "key": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 14, "others": (), "fault": None}),
    ],
    # a statement waited with a held table that had given its name away: a copy of its CREATE had bound the name anew
    "a held table gives its name away, and a copy of its CREATE comes with that": [
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_batch_is_taken", {"limit": (0, 2), **QUIET}),
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("a_column_changes", {"name": "b", "what": "add", "pick": 0, "key": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 21, "others": (), "fault": None}),
    ],
    # the name of a dropped table stayed held, as a table had been made after it under the same name
    "a database goes again with a table that nobody understands": [
        ("the_world_is", {"shared": True, "policy": "drop"}),
        ("something_strange_is_done", {"name": "a", "key": 0}),
        ("a_database_goes", {"name": "a", "again": True}),
        ("a_batch_is_taken", {"limit": (9,), "crash": None, "others": (), "fault": ("a", "evolve")}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    # an exact cut lacked a changefeed that had come after a try which had shown more
    "a changefeed comes between a try and a shorter one": [
        ("the_world_is", {"shared": False, "policy": "drop", "keyless": True}),
        ("another_changefeed_comes", {"name": "d"}),
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": "d", "other": 0}),
        ALL,
        ("something_befalls_the_checkpoint", {"what": "stop"}),
        ("the_changefeed_restarts", {"back": 1}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 15, "others": (), "fault": None}),
        ("another_changefeed_comes", {"name": "d"}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    # a statement that a try which died had left pending, from beyond what the next try read, was taken for its progress
    "a pending DROP from beyond what is read again": [
        ("a_batch_is_taken", {"limit": (9,), "crash": 9, "others": (), "fault": None}),
        ("a_database_goes", {"name": "c", "again": True}),
        ("another_changefeed_comes", {"name": "d"}),
        ("another_changefeed_comes", {"name": "d"}),
        ALL,
        ("names_change", {"what": "drop", "name": "c"}),
        ("a_batch_is_taken", {"limit": (4, 4, 0, 0), "crash": 4, "others": (), "fault": None}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 12, "others": (), "fault": None}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    # what has waited was quarantined where a held table asked what a try that died had left out, and was released later
    "rows that wait with a table that a try which died had begun": [
        ALL,
        ("names_change", {"what": "recreate", "name": "b"}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 16, "others": (), "fault": None}),
        ("rows_change", {"name": "b", "key": 0, "what": "put", "also": None, "other": 0}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("something_strange_is_done", {"name": "b", "key": 0}),
        ("a_batch_is_taken", {"limit": (6, 0), **QUIET}),
    ],
    # a held table was dropped in the batch of its EXCHANGE: what it held was let go, and the other one never had it
    "a held table exchanges rows and is dropped": [
        ("the_world_is", {"shared": False, "policy": "keep", "partitioned": True}),
        ALL,
        ("names_change", {"what": "create", "name": "a"}),
        ("a_table_is_held_or_released", {"name": "b", "crash": None, "hold": True}),
        ("partitions_are_exchanged", {"name": "a", "other": "b", "key": None}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
        ("names_change", {"what": "drop", "name": "b"}),
    ],
    # topics that a try which died had read further counted as late: a RENAME of another topic was applied before theirs
    "two names change places, and a later try reads less of it": [
        BY_TOPIC,
        ("a_column_changes", {"name": "a", "what": "add", "pick": 0, "key": 0}),
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_batch_is_taken", {"limit": (2, 2), "crash": 14, "others": (), "fault": None}),
        ("a_batch_is_taken", {"limit": (9,), "crash": 24, "others": (), "fault": None}),
        ("something_befalls_the_checkpoint", {"what": "lose"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
    ],
    # a statement of a topic that the batch had not read made the topic one in time: its rows counted as redelivered
    "statements ahead in a topic that comes later": [
        ("the_world_is", {"shared": True, "policy": "drop", "alone": True}),
        ("another_changefeed_comes", {"name": "d"}),
        ("a_column_changes", {"name": "d", "what": "add", "pick": 1, "key": 0}),
        ("a_column_changes", {"name": "a", "what": "add", "pick": 0, "key": 0}),
        ("a_batch_is_taken", {"limit": (9,), "crash": None, "others": (), "fault": ("a", "evolve")}),
    ],
    # a statement that was kept ahead of its batch was kept once more with it
    "statements ahead that still wait": [
        ("the_world_is", {"shared": True, "policy": "keep", "alone": True}),
        ("a_batch_is_taken", {"limit": (9,), **QUIET}),
        ("names_change", {"what": "recreate", "name": "a"}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
        ("a_batch_is_taken", {"limit": (2, 0), **QUIET}),
    ],
    # the same, where a person holds the table that it is about
    "statements ahead about a held table": [
        ("the_world_is", {"shared": True, "policy": "drop", "alone": True}),
        ("a_batch_is_taken", {"limit": (9,), **QUIET}),
        ("names_change", {"what": "swap", "name": "a"}),
        ("a_table_is_held_or_released", {"name": "a", "crash": None, "hold": True}),
        ("a_batch_is_taken", {"limit": (1,), **QUIET}),
        ("a_batch_is_taken", {"limit": (9,), **QUIET}),
    ],
}
