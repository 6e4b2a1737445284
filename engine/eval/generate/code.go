package generate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"conclave/engine/eval"
)

// task is a small Python function with tests.
type task struct {
	name, says string
	tests      []string // expressions that are true of a right function; the first two are told
}

// code returns a question that asks for a Python function. Its checks are the examples in the
// text; a team with a ballot of checks may run them. The target is a command with hidden
// tests.
func code(chance *rand.Rand) eval.Question {
	t := one(chance, tasks()...)(chance)
	var b strings.Builder
	fmt.Fprintf(&b, "Write a Python 3 function %s that %s\n\nExamples that must hold:\n", t.name, t.says)
	for _, test := range t.tests[:2] {
		fmt.Fprintf(&b, "    %s\n", test)
	}
	fmt.Fprintf(&b, "\nGive the whole function in one code block that begins with ```python, without tests; answer with its name.")
	checks, _ := json.Marshal([]map[string]string{ // strings always have a JSON form
		{"name": "example 1", "command": run(t.tests[:1])}, {"name": "example 2", "command": run(t.tests[1:2])},
	})
	return eval.Question{Input: b.String(), Target: eval.Targets{run(t.tests)}, Scorer: eval.Command, Checks: checks}
}

// run returns a command that takes the code block of an answer, or else the file solution.py,
// and runs tests on it.
func run(tests []string) string {
	var b strings.Builder
	b.WriteString("d=$(mktemp -d) && sed -n '/^[ ]*```/,/^[ ]*```/p' \"$CONCLAVE_ANSWER\" | grep -v '^[ ]*```' > \"$d/solution.py\"\n")
	b.WriteString("test -s \"$d/solution.py\" || cp solution.py \"$d/solution.py\" || exit 1\ncat >> \"$d/solution.py\" <<'TESTS'\n\n")
	for _, test := range tests {
		fmt.Fprintf(&b, "assert %s\n", test)
	}
	return b.String() + "TESTS\nexec timeout 10 python3 \"$d/solution.py\"\n"
}

// tasks returns makers of tasks.
func tasks() []func(*rand.Rand) task {
	return []func(*rand.Rand) task{sumOf, rotated, runs, middle, digits, between2, vowels, second}
}

func sumOf(chance *rand.Rand) task {
	a, b := between(chance, 2, 5), between(chance, 6, 9)
	name := fmt.Sprintf("sum_multiples_%d_%d", a, b)
	sum := func(n int) (s int) {
		for i := range n {
			if i%a == 0 || i%b == 0 {
				s += i
			}
		}
		return s
	}
	return task{
		name + "(n)", fmt.Sprintf("returns the sum of all integers from 0 up to but not including n that are divisible by %d or by %d.", a, b),
		[]string{
			equal(name, "10", sum(10)), equal(name, "1", sum(1)), equal(name, "100", sum(100)), equal(name, "0", 0), equal(name, "37", sum(37)),
		},
	}
}

func rotated(chance *rand.Rand) task {
	k := between(chance, 2, 3)
	name := fmt.Sprintf("rotate_%d", k)
	return task{
		name + "(items)", fmt.Sprintf("returns a new list with the items of a list moved %d places to the right, those that fall off the end coming in at the front. Shorter lists go around as often as needed.", k),
		[]string{
			fmt.Sprintf("%s([1, 2, 3, 4, 5]) == %s", name, rotation(5, k)), fmt.Sprintf("%s([]) == []", name),
			fmt.Sprintf("%s([1]) == [1]", name), fmt.Sprintf("%s([1, 2]) == %s", name, rotation(2, k)), fmt.Sprintf("%s([1, 2, 3, 4]) == %s", name, rotation(4, k)),
		},
	}
}

// rotation returns the list of 1 to n, rotated k places to the right.
func rotation(n, k int) string {
	out := make([]string, n)
	for i := range n {
		out[(i+k)%n] = fmt.Sprint(i + 1)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func runs(*rand.Rand) task {
	return task{"longest_run(text)", "returns the length of the longest run of one repeated character in a string, 0 for the empty string.", []string{
		equal("longest_run", "'aabbbc'", 3), equal("longest_run", "''", 0), equal("longest_run", "'abc'", 1), equal("longest_run", "'abbaaaa'", 4), equal("longest_run", "'zzz'", 3),
	}}
}

func middle(*rand.Rand) task {
	return task{"middle(numbers)", "returns the median of a list of numbers: the middle one of the sorted list, or the mean of the two middle ones; None for an empty list.", []string{
		"middle([3, 1, 2]) == 2", "middle([4, 1, 2, 3]) == 2.5", "middle([]) is None", "middle([5]) == 5", "middle([-1, -5, 10, 2]) == 0.5",
	}}
}

func digits(chance *rand.Rand) task {
	base := between(chance, 3, 8)
	name := fmt.Sprintf("digit_sum_%d", base)
	sum := func(n int) (s int) {
		for ; n > 0; n /= base {
			s += n % base
		}
		return s
	}
	return task{name + "(n)", fmt.Sprintf("returns the sum of the digits of a non-negative integer written in base %d.", base), []string{
		equal(name, "10", sum(10)), equal(name, "0", 0), equal(name, "255", sum(255)), equal(name, "1000", sum(1000)), equal(name, fmt.Sprint(base), 1),
	}}
}

func between2(chance *rand.Rand) task {
	low, high := between(chance, -5, 0), between(chance, 5, 12)
	name := "clamp_all"
	return task{name + "(numbers)", fmt.Sprintf("returns a list with every number limited to the range from %d to %d, without duplicates, in order of first occurrence.", low, high), []string{
		fmt.Sprintf("%s([1, 2, 1]) == [1, 2]", name), fmt.Sprintf("%s([100, 200]) == [%d]", name, high), fmt.Sprintf("%s([]) == []", name),
		fmt.Sprintf("%s([-50, %d, 3]) == [%d, 3]", name, low, low), fmt.Sprintf("%s([%d, 99, 4]) == [%d, 4]", name, high, high),
	}}
}

func vowels(*rand.Rand) task {
	return task{"swap_vowels(text)", "returns a string in which the vowels (a, e, i, o, u in either case) are in reverse order while all other characters stay where they are.", []string{
		"swap_vowels('hello') == 'holle'", "swap_vowels('xyz') == 'xyz'", "swap_vowels('Apple') == 'epplA'", "swap_vowels('') == ''", "swap_vowels('Able was I') == 'Ibla wes A'",
	}}
}

func second(*rand.Rand) task {
	return task{"second_largest(numbers)", "returns the second largest distinct value of a list of numbers, None if there are fewer than two distinct values.", []string{
		"second_largest([4, 1, 3]) == 3", "second_largest([2, 2]) is None", "second_largest([5, 5, 4]) == 4", "second_largest([]) is None", "second_largest([-1, -2, -3]) == -2",
	}}
}

func equal(name, argument string, value int) string {
	return fmt.Sprintf("%s(%s) == %d", name, argument, value)
}
