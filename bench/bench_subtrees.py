"""What independent sub-trees on halves of the ranks could save at most.

    PYTHONPATH=build/python python3 bench/bench_subtrees.py [SEED [CHAINS]]

For random chains, the predicted seconds of the plan over P ranks are divided by those of the best plan
in which the two operands of one product are computed at the same time, each by half of the ranks, and
brought together by one exchange of the smaller one. Nothing is run. The prices are those that plans
assume without a calibration: two messages for the exchange and its bytes over all ranks.
"""

import json
import math
import random
import sys

from mmchain import _mmchain

MESSAGES_S = 2 * 5e-6
BYTE_S = 8e-10


def plan(dims, ranks):
    text = "f64:" + "x".join(map(str, dims))
    made = _mmchain.TeamPlan(ranks, text, None, None, "time", "native", False, None, None)
    return json.loads(made.explain("json"))


def gain(dims, ranks):
    """The predicted seconds divided by the least with one pair of sub-trees on halves."""
    whole = plan(dims, ranks)
    least = whole["predicted_s"]
    spans = {f"A{i + 1}": (i, i + 1) for i in range(len(dims) - 1)}
    seconds = dict.fromkeys(spans, 0.0)
    for i, step in enumerate(whole["steps"], 1):
        left, right = step["operands"]
        spans[f"T{i}"] = spans[left][0], spans[right][1]
        seconds[f"T{i}"] = seconds[left] + seconds[right] + step["predicted_s"]
        if left[0] == right[0] == "T":
            halves = [
                plan(dims[first : last + 1], ranks // 2)["predicted_s"]
                for first, last in (spans[left], spans[right])
            ]
            smaller = min(dims[spans[x][0]] * dims[spans[x][1]] for x in (left, right))
            together = MESSAGES_S + smaller * 8 * BYTE_S / ranks
            both = whole["predicted_s"] - seconds[left] - seconds[right] + max(halves) + together
            least = min(least, both)
    return whole["predicted_s"] / least


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1000)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    print(f"seed {seed}, {count} chains of 4 to 10 factors a row")
    draw = random.Random(seed)
    for least, most in ((8, 256), (32, 1024), (32, 8192)):
        for ranks in (4, 16, 64):
            gains = []
            for _ in range(count):
                sides = [math.log(least), math.log(most)]
                dims = [round(math.exp(draw.uniform(*sides))) for _ in range(draw.randint(5, 11))]
                gains.append(gain(dims, ranks))
            geomean = math.exp(sum(map(math.log, gains)) / count)
            print(f"sides {least}-{most}, {ranks} ranks: geomean {geomean:.3f}, most {max(gains):.2f}")


if __name__ == "__main__":
    main()
