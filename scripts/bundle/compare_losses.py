#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_losses.py TYPE EXPECTED.jsonl FOUND.jsonl: losses of two runs of one job, step by step.

float32: 1e-4 relative in the first 10 steps, 1e-3 later, where rounding has grown. bfloat16: 0.5 %.
Prints the largest differences. Exit code: 0 good, 1 a step differs by more, or is missing.
"""

import json
import math
import sys


def losses(path):
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file if line.strip()]
    return {record["step"]: record["loss"] for record in records if "loss" in record}


def limit(kind, step):
    if kind == "bfloat16":
        return 5e-3
    return 1e-4 if step <= 10 else 1e-3


def main():
    kind, expected_path, found_path = sys.argv[1:]
    expected, found = losses(expected_path), losses(found_path)
    if not found or not set(found) <= set(expected):
        print(f"{kind}: {len(found)} steps, {len(expected)} recorded")
        return 1
    # A loss that is not a number differs by more than any limit.
    difference = {
        step: abs(loss - expected[step]) / abs(expected[step]) if math.isfinite(loss) else math.inf
        for step, loss in found.items()
    }
    for name, steps in (("first 10 steps", [s for s in found if s <= 10]),
                        ("later steps", [s for s in found if s > 10])):
        if steps:
            worst = max(steps, key=difference.get)
            print(f"{kind}, {name}: largest relative difference {difference[worst]:.2e} "
                  f"(step {worst}: {found[worst]:.6f}, on the CPU {expected[worst]:.6f}, "
                  f"allowed {limit(kind, worst):.0e})")
    wrong = [step for step in found if not difference[step] <= limit(kind, step)]
    print(f"{kind}: {len(found)} steps, " + (f"wrong: {wrong}" if wrong else "good"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
