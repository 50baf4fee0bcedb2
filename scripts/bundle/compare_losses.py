#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_losses.py TYPE STEPS EXPECTED.jsonl FOUND.jsonl: losses of two runs of one job.

float32: 1e-4 relative, bfloat16: 0.5 %; the job is one that does not make rounding grow (job.toml).
Prints the largest difference. Exit code: 0 good, 1 a step differs by more, or is missing.
"""

import json
import math
import sys

LIMITS = {"float32": 1e-4, "bfloat16": 5e-3}


def losses(path):
    """By step; a loss that is missing or not a number is nan."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file if line.strip()]
    return {record["step"]: float(record["loss"] or "nan") for record in records}


def main():
    kind, count, expected_path, found_path = sys.argv[1:]
    steps = range(1, int(count) + 1)
    expected, found = losses(expected_path), losses(found_path)
    missing = [step for step in steps if step not in expected or step not in found]
    if missing:
        print(f"{kind}: no losses of steps {missing}")
        return 1
    difference = {step: abs(found[step] - expected[step]) / expected[step] for step in steps}
    worst = max(steps, key=lambda s: math.inf if math.isnan(difference[s]) else difference[s])
    print(f"{kind}: largest relative difference {difference[worst]:.2e} (step {worst}: "
          f"{found[worst]:.6f}, on the CPU {expected[worst]:.6f}, allowed {LIMITS[kind]:.0e})")
    wrong = [step for step in steps if not difference[step] <= LIMITS[kind]]  # nan is wrong too
    print(f"{kind}: {count} steps, " + (f"wrong: {wrong}" if wrong else "good"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
