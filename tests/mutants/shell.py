"""Defects of the shell's statistics that must not pass, as fields of `mutants.Mutant`, and who has to notice them."""

KILLERS = {
    "dates of files": "pytest tests/cli/test_cli_stats_dates.py",
    "found keys of a shell": "pytest tests/cli/test_cli_stats_found.py -k 'charge or enough or paid'",
    "stats": "pytest tests/cli/test_cli_stats.py",
    "tables of a shell": "pytest tests/cli/test_cli_stats_files.py",
    "planned tables": "pytest tests/cli/test_cli_stats_plan.py -k 'ledger or one_plan or nothing'",
    "written tables": "pytest tests/cli/test_cli_stats_output.py",
}

MUTANTS = [
    (
        "a column of units whose values are released is read as ids",
        "names-that-are-released-read-as-ids",
        "None if setting.unit in names else setting.unit",
        "setting.unit",
        "tables of a shell",
    ),
    (
        "a command's keys are found for nothing",
        "keys-found-for-nothing",
        "[] if setting.paid is None else [setting.paid]",
        "",
        "found keys of a shell",
    ),
    (
        "a command's keys are found with the whole ε",
        "keys-found-with-the-whole-budget",
        "Fraction(epsilon) / number",
        "Fraction(epsilon)",
        "found keys of a shell",
    ),
    (
        "a plan says what is left in the scope alone, not in those around it",
        "plan-forgets-the-scopes-around",
        "for each in around)",
        "for each in around[:1])",
        "planned tables",
    ),
    (
        "a text that is no date counts as a day",
        "texts-that-are-no-dates-count-as-a-day",
        "[read(str(entry).strip()) for",
        "[read(str(entry).strip()) or read('2026-06-01') for",
        "dates of files",
    ),
    (
        "a plan takes its errors from the rows of the file",
        "plan-reads-the-rows",
        "release(table.unread(*wanted), None, blank=True)",
        "release(table.read(*wanted, lambda _: None), None, blank=True)",
        "planned tables",
    ),
    (
        "a plan draws noise of the operating system",
        "plan-draws-noise",
        "testing.seeded(_SEED),",
        "None,",
        "planned tables",
    ),
    (
        "a released table replaces the file that it is about, or the ledger",
        "table-is-written-over-the-file-that-it-is-about",
        "if other is not None and os.path.samefile(path, other):",
        "if False:",
        "written tables",
    ),
    (
        "numbers that were drawn and paid for are not printed where their file fails",
        "numbers-that-were-paid-for-are-lost-with-their-file",
        "console.report(report, _report.show)",
        "pass",
        "written tables",
    ),
    (
        "the record of a charge does not say which rows were selected",
        "conditions-not-in-the-record-of-a-charge",
        'rows_with = f" of rows with {\' and \'.join(selected(args))}" if args.where else ""',
        'rows_with = ""',
        "tables of a shell",
    ),
    (
        "of several conditions of a command the last one alone selects",
        "last-of-several-conditions-alone",
        "found if kept is None else kept & found",
        "found",
        "tables of a shell",
    ),
    (
        "a point among decimal commas is a decimal point",
        "point-among-decimal-commas-is-a-decimal-point",
        'math.nan if "." in cell else number_of',
        "number_of",
        "tables of a shell",
    ),
    (
        "each statistic of a command gets the whole budget",
        "statistics-of-a-command-with-the-whole-budget-each",
        "Fraction(epsilon) / number",
        "Fraction(epsilon)",
        "stats",
    ),
]
