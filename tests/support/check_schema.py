"""check_schema.py [--closed] SCHEMA FILE..: validates reports against the JSON schema.

--closed also refuses keys that the schema does not describe.

Prints one line per fault. Exit 0: all valid, 1: a report is invalid, 3: no jsonschema module (Debian's python3-jsonschema).
"""
import functools
import json
import sys


def close(schema):
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)


@functools.cache
def validator_of(schema_file, closed):
    from jsonschema import Draft202012Validator
    with open(schema_file, encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    if closed:
        close(schema)
    return Draft202012Validator(schema)


def faults_in(files, schema_file, closed):
    """Yields one line per fault of the reports, none if all are valid.

    Raises ImportError without the jsonschema module."""
    validator = validator_of(schema_file, closed)
    for name in files:
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        for error in validator.iter_errors(report):
            yield f"{name}: {error.json_path}: {error.message[:200]}"


def main(arguments):
    schema_file, *files = [word for word in arguments if word != "--closed"]
    try:
        faults = list(faults_in(files, schema_file, "--closed" in arguments))
    except ImportError:
        return 3
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
