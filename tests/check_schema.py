"""check_schema.py SCHEMA FILE..: is each report valid? --closed: may it hold only keys that the schema describes?

Prints one line a fault. Exit 0: all valid, 1: one is not, 3: no jsonschema module (Debian's python3-jsonschema).
"""
import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(3)


def close(schema):
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)


def main(arguments):
    closed = "--closed" in arguments
    schema_file, *files = [word for word in arguments if word != "--closed"]
    with open(schema_file, encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    if closed:
        close(schema)
    validator = Draft202012Validator(schema)
    faults = 0
    for name in files:
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        for error in validator.iter_errors(report):
            faults += 1
            print(f"{name}: {error.json_path}: {error.message[:200]}")
    return 1 if faults or not files else 0


sys.exit(main(sys.argv[1:]))
