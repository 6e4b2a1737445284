"""Runs programs with batches of tests: standard input has {"programs": {key: text}, "batches": {key: [assert, …]},
"pairs": [[program, batch], …]}, and a line of standard output has a pair with a character for each test: 1 if it
passes, t if it took too long, and else 0. Once a program has been slow three times, it fails the rest of its tests. A
program runs in processes of its own. One that is silent for long is killed, and the next test runs in another."""
import json
import os
import select
import signal
import sys

SILENCE = 10.0  # seconds
EACH = 0.5  # seconds of processor time for a test, and for the program itself
SLOW = 3  # times


class Slow(BaseException):
    pass


def stop(*_):
    raise Slow


def timed(code, names):
    """Returns 1 for code that succeeds, 0 for code that fails, and t for code that takes too long."""
    try:
        signal.setitimer(signal.ITIMER_PROF, EACH)
        exec(code, names)
        return b"1"
    except Slow:
        return b"t"
    except BaseException:
        return b"0"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(program, tests, out):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.setrecursionlimit(2000)
    signal.signal(signal.SIGPROF, stop)
    names = {"__name__": "program"}
    try:
        loaded = timed(compile(program, "program", "exec"), names) == b"1"
    except BaseException:
        loaded = False
    for test in tests:
        try:
            verdict = timed(compile(test, "test", "exec"), dict(names)) if loaded else b"0"
        except BaseException:
            verdict = b"0"
        os.write(out, verdict)
    os._exit(0)


def verdicts(program, tests):
    found = ""
    while len(found) < len(tests):
        if found.count("t") >= SLOW:
            found += "0" * (len(tests) - len(found))
            break
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            run(program, tests[len(found):], write)
        os.close(write)
        ended = False
        while found.count("t") < SLOW and select.select([read], [], [], SILENCE)[0]:
            more = os.read(read, 1).decode()
            if not more:
                ended = True
                break
            found += more
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        if len(found) < len(tests) and found.count("t") < SLOW:
            found += "0" if ended else "t"  # it died, or was silent
    return found


def main():
    given = json.load(sys.stdin)
    by_program = {}
    for program, batch in given["pairs"]:
        by_program.setdefault(program, []).append(batch)
    for program, batches in by_program.items():
        tests = list(dict.fromkeys(t for b in batches for t in given["batches"][b]))
        found = dict(zip(tests, verdicts(given["programs"][program], tests)))
        for batch in batches:
            print(json.dumps([program, batch, "".join(found[t] for t in given["batches"][batch])]), flush=True)


main()
