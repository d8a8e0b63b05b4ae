"""Damage model files in three ways; what is not refused by an error of tagloom is used.

In the folder tests: python -m fuzz.damage BEGIN END [SECONDS] tries the numbers BEGIN to END, or
stops when the time is over. A number is the seed, so that each file can be made again alone.
"""

import functools
import random
import sys
import time
from collections import Counter

from fuzz.targets import change_parts, model_seeds, mutate, use_model
from tagloom import storage
from tagloom.errors import TagloomError

SLOW = 5  # seconds of CPU time for one file


@functools.cache
def seeds():
    """The files, whole and in parts."""
    return [(data, storage.read_bytes(data)) for data in model_seeds()]


def rewritten(header, arrays, rng, times):
    """Return a file of changed parts, with right checksums."""
    for _ in range(100):
        changed = header, arrays
        for _ in range(times):
            changed = change_parts(*changed, rng)
        try:
            return storage.to_bytes(*changed)
        except (TagloomError, ValueError, TypeError):
            continue
    raise AssertionError("no change of the parts gives a file")


def damaged(number):
    """Return the kind of damage and the file of a number."""
    rng = random.Random(number)
    data, (header, arrays) = rng.choice(seeds())
    times = rng.choice([1, 1, 2, 5])
    if number % 10 < 3:
        for _ in range(times):
            data = mutate(data, rng)
        return "raw", data
    data = rewritten(header, arrays, rng, times)
    if number % 10 == 3:  # damage on top of a file with forged checksums
        return "structure and raw", mutate(data, rng)
    return "structure, new checksums", data


def try_one(number):
    """Load and use one damaged file; return what happened."""
    kind, data = damaged(number)
    began = time.process_time()
    try:
        use_model(data)
        message, result = "", "used"
    except TagloomError as error:
        message, result = str(error), "refused"
    except Exception as error:
        raise AssertionError(f"number {number}: {error!r}") from error
    assert not message or message.isprintable(), f"number {number}: {message!r}"
    assert len(message) < 2000, f"number {number}: a message of {len(message)} characters"
    seconds = time.process_time() - began
    assert seconds < SLOW, f"number {number}: {seconds:.1f} s"
    return f"{kind}: {result}"


def damage_models(numbers):
    """Try a range of numbers; count what happened."""
    return Counter(map(try_one, range(*numbers)))


def main():
    """Try the numbers until the time is over."""
    begin, end = int(sys.argv[1]), int(sys.argv[2])
    until = time.monotonic() + float((*sys.argv, "inf")[3])
    outcomes = Counter()
    for number in range(begin, end):
        try:
            outcomes[try_one(number)] += 1
        except AssertionError as fault:
            print(f"FAULT: {fault}", flush=True)
            outcomes["fault"] += 1
        if number % 10_000 == 9_999:
            print(f"{begin} to {number}: {dict(outcomes)}", flush=True)
        if time.monotonic() > until:
            break
    print(f"{sum(outcomes.values()):,} damaged models: {dict(outcomes)}")
    sys.exit(outcomes["fault"] > 0)


if __name__ == "__main__":
    main()
