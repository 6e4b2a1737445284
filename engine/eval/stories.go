package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// askArithmetic tells a story and asks for its last number.
func askArithmetic(chance *rand.Rand) Question {
	name := pickFrom(chance, "Mara", "Jonas", "Aiko", "Tomas", "Leila", "Pavel", "Ines", "Kofi")
	switch chance.IntN(4) {
	case 0:
		boxes, each, sold, back := randomBetween(chance, 4, 19), randomBetween(chance, 6, 24), randomBetween(chance, 5, 20), randomBetween(chance, 2, 9)
		return Question{
			Input: fmt.Sprintf("A bakery fills %d boxes with %d rolls each. It sells %d rolls, and %s brings %d of them back. How many rolls are in the bakery?",
				boxes, each, sold, name, min(back, sold)),
			Target: numberOf(boxes*each - sold + min(back, sold)),
		}
	case 1:
		price, count, coupon, people := randomBetween(chance, 3, 15), randomBetween(chance, 4, 12), randomBetween(chance, 1, 9), randomBetween(chance, 2, 4)
		total := price*count - coupon
		people = nearestDivisor(total, people)
		return Question{
			Input: fmt.Sprintf("%s buys %d tickets at %d euros each with a coupon that takes %d euros off the whole sum. %d people share the cost equally. How many euros does each of them pay?",
				name, count, price, coupon, people),
			Target: numberOf(total / people),
		}
	case 2:
		start, rate, hours, leak := randomBetween(chance, 20, 90), randomBetween(chance, 7, 19), randomBetween(chance, 3, 9), randomBetween(chance, 2, 6)
		return Question{
			Input: fmt.Sprintf("A tank holds %d litres. A pump adds %d litres an hour while a leak loses %d litres an hour. After %d hours half of the water that was in the tank at the beginning is drained as well, rounded down. How many litres are left?",
				start, rate, leak, hours),
			Target: numberOf(start + (rate-leak)*hours - start/2),
		}
	default:
		pages, daily, days, more := randomBetween(chance, 200, 400), randomBetween(chance, 11, 25), randomBetween(chance, 3, 6), randomBetween(chance, 2, 9)
		return Question{
			Input: fmt.Sprintf("%s reads a book of %d pages. On the first %d days %s reads %d pages a day, and on the next %d days %d pages more a day than before. How many pages are left?",
				name, pages, days, name, daily, 2, more),
			Target: numberOf(pages - days*daily - 2*(daily+more)),
		}
	}
}

// nearestDivisor returns the number from 2 to 5 nearest to n that divides total, or 1.
func nearestDivisor(total, n int) int {
	for _, d := range []int{n, 2, 3, 4, 5} {
		if total%d == 0 {
			return d
		}
	}
	return 1
}

// askChoice returns a question for the largest of three computed amounts, for a date or for a
// remainder, with plausible wrong choices.
func askChoice(chance *rand.Rand) Question {
	var question string
	var right int
	var wrong []int
	switch chance.IntN(3) {
	case 0:
		a, b, m := randomBetween(chance, 12, 48), randomBetween(chance, 3, 9), randomBetween(chance, 5, 11)
		question, right = fmt.Sprintf("What is the remainder of %d × %d divided by %d?", a, b, m), a*b%m
		wrong = []int{a * b / m, (a + b) % m, m - right, a % m, right + 1}
	case 1:
		today, later := chance.IntN(7), randomBetween(chance, 15, 120)
		names := []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
		q := Question{Input: fmt.Sprintf("Today is %s. Which day of the week is it in %d days?", names[today], later)}
		answer := (today + later) % 7
		for i := range 4 {
			q.Choices = append(q.Choices, names[(answer+i)%7])
		}
		return shuffleChoices(chance, q)
	default:
		speed, minutes, stop := 6*randomBetween(chance, 5, 20), randomBetween(chance, 3, 9)*10, randomBetween(chance, 1, 3)*5
		question = fmt.Sprintf("A train goes %d km an hour. It travels for %d minutes in all, of which it stands still for %d. How many km does it cover?", speed, minutes, stop)
		right = speed * (minutes - stop) / 60
		wrong = []int{speed * minutes / 60, right + 6, right - 3, speed * (minutes + stop) / 60, right + 9}
		if speed*(minutes-stop)%60 != 0 {
			question += " Round down to whole km."
		}
	}
	q := Question{Input: question, Choices: []string{fmt.Sprint(right)}}
	for _, w := range append(wrong, right+2, right+4, right+7) {
		if text := fmt.Sprint(w); len(q.Choices) < 4 && w >= 0 && !slices.Contains(q.Choices, text) {
			q.Choices = append(q.Choices, text)
		}
	}
	return shuffleChoices(chance, q)
}

func shuffleChoices(chance *rand.Rand, q Question) Question {
	right := q.Choices[0]
	chance.Shuffle(len(q.Choices), func(i, j int) { q.Choices[i], q.Choices[j] = q.Choices[j], q.Choices[i] })
	q.Target = Targets{string(rune('A' + slices.Index(q.Choices, right)))}
	return q
}

// pickWords asks about a text whose letters or words have to be looked at one by one.
func pickWords(chance *rand.Rand) Question {
	list := []string{
		"lantern", "orchard", "pebble", "harbour", "violin", "compass", "meadow", "thunder", "blanket", "garden",
		"copper", "pigeon", "saddle", "winter", "marble", "engine", "candle", "forest", "ribbon", "temple",
	}
	chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	word := list[0]
	switch chance.IntN(4) {
	case 0:
		letters := strings.Split(word, "")
		slices.Reverse(letters)
		return Question{Input: fmt.Sprintf("Write the word %q backwards.", word), Target: Targets{strings.Join(letters, "")}}
	case 1:
		text := strings.Join(list[:4], " ")
		letter := pickFrom(chance, "e", "a", "r", "n", "o")
		return Question{
			Input:  fmt.Sprintf("How often does the letter %q occur in the text %q?", letter, text),
			Target: numberOf(strings.Count(text, letter)),
		}
	case 2:
		some := slices.Clone(list[:5])
		nth := randomBetween(chance, 2, 4)
		input := fmt.Sprintf("Sort these words alphabetically: %s. Which word is number %d in the sorted list?", strings.Join(some, ", "), nth)
		slices.Sort(some)
		return Question{Input: input, Target: Targets{some[nth-1]}}
	default:
		some := list[:randomBetween(chance, 4, 6)]
		var initials strings.Builder
		for _, w := range some {
			initials.WriteString(w[len(w)-1:])
		}
		return Question{
			Input:  fmt.Sprintf("Join the last letters of these words, in this order: %s.", strings.Join(some, ", ")),
			Target: Targets{initials.String()},
		}
	}
}

// QuestionOptions choose the questions.
type QuestionOptions struct {
	Seed  uint64
	Count int
	Kinds []string // kinds of questions, made in turn
}

// maxCount bounds the questions of one data set.
const maxCount = 10_000

// kinds are the makers of questions by kind.
var kinds = []struct {
	name string
	make func(*rand.Rand) Question
}{{"arithmetic", askArithmetic}, {"choice", askChoice}, {"strings", pickWords}, {"code", askCode}}

// QuestionKinds returns the names of the kinds of questions.
func QuestionKinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// GenerateQuestions returns a data set. Equal options give equal bytes, and a larger count only
// appends questions.
func GenerateQuestions(o QuestionOptions) ([]byte, error) {
	if o.Count < 1 || o.Count > maxCount {
		return nil, fmt.Errorf("%d questions; give a number from 1 to %d", o.Count, maxCount)
	}
	if len(o.Kinds) == 0 {
		return nil, fmt.Errorf("no kind of questions is given; choose from %s", strings.Join(QuestionKinds(), ", "))
	}
	for _, name := range o.Kinds {
		if !slices.Contains(QuestionKinds(), name) {
			return nil, fmt.Errorf("there is no kind of questions %q; choose from %s", name, strings.Join(QuestionKinds(), ", "))
		}
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	seen := map[string]bool{}
	for i := range o.Count {
		kind := slices.Index(QuestionKinds(), o.Kinds[i%len(o.Kinds)])
		var q Question
		for try := uint64(0); ; try++ {
			chance := rand.New(rand.NewPCG(o.Seed, uint64(i)<<16|try)) //nolint:gosec // the same seed gives the same questions
			if q = kinds[kind].make(chance); !seen[q.Input] || try > 100 {
				break
			}
		}
		seen[q.Input] = true
		q.ID = fmt.Sprintf("%s-%03d", kinds[kind].name, i+1)
		q.Metadata = fmt.Appendf(nil, `{"kind":%q,"seed":%d}`, kinds[kind].name, o.Seed)
		_ = lines.Encode(q) // strings always have a JSON form
	}
	return out.Bytes(), nil
}

func randomBetween(chance *rand.Rand, low, high int) int { return low + chance.IntN(high-low+1) }

func pickFrom[T any](chance *rand.Rand, of ...T) T { return of[chance.IntN(len(of))] }

func numberOf(n int) Targets { return Targets{fmt.Sprint(n)} }

// task is a small Python function with tests.
type task struct {
	name, says string
	tests      []string // expressions that are true of a right function; the first two are told
}

// askCode returns a question that asks for a Python function. Its checks are the examples in the text; a team
// with a ballot of checks may run them. The target is a command with hidden tests.
func askCode(chance *rand.Rand) Question {
	t := pickFrom(chance, sumOf, rotationTask, longestRunTask, medianTask, digitsTask, betweenTask, swapVowelsTask, secondLargestTask)(chance)
	var b strings.Builder
	fmt.Fprintf(&b, "Write a Python 3 function %s that %s\n\nExamples that must hold:\n", t.name, t.says)
	for _, test := range t.tests[:2] {
		fmt.Fprintf(&b, "    %s\n", test)
	}
	fmt.Fprintf(&b, "\nGive the whole function in one code block that begins with ```python, without tests; answer with its name.")
	checks, _ := json.Marshal([]map[string]string{ // strings always have a JSON form
		{"name": "example 1", "command": testCommand(t.tests[:1])}, {"name": "example 2", "command": testCommand(t.tests[1:2])},
	})
	return Question{Input: b.String(), Target: Targets{testCommand(t.tests)}, Scorer: Command, Checks: checks}
}

// testCommand returns a command that takes the code block of an answer, or else the file solution.py,
// and runs tests on it.
func testCommand(tests []string) string {
	var b strings.Builder
	b.WriteString("d=$(mktemp -d) && sed -n '/^[ ]*```/,/^[ ]*```/p' \"$CONCLAVE_ANSWER\" | grep -v '^[ ]*```' > \"$d/solution.py\"\n")
	b.WriteString("test -s \"$d/solution.py\" || cp solution.py \"$d/solution.py\" || exit 1\ncat >> \"$d/solution.py\" <<'TESTS'\n\n")
	for _, test := range tests {
		fmt.Fprintf(&b, "assert %s\n", test)
	}
	return b.String() + "TESTS\nexec timeout 10 python3 \"$d/solution.py\"\n"
}

func sumOf(chance *rand.Rand) task {
	a, b := randomBetween(chance, 2, 5), randomBetween(chance, 6, 9)
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
			equalTest(name, "10", sum(10)), equalTest(name, "1", sum(1)), equalTest(name, "100", sum(100)), equalTest(name, "0", 0), equalTest(name, "37", sum(37)),
		},
	}
}

func rotationTask(chance *rand.Rand) task {
	k := randomBetween(chance, 2, 3)
	name := fmt.Sprintf("rotate_%d", k)
	return task{
		name + "(items)", fmt.Sprintf("returns a new list with the items of a list moved %d places to the right, those that fall off the end coming in at the front. Shorter lists go around as often as needed.", k),
		[]string{
			fmt.Sprintf("%s([1, 2, 3, 4, 5]) == %s", name, rotateNumbers(5, k)), fmt.Sprintf("%s([]) == []", name),
			fmt.Sprintf("%s([1]) == [1]", name), fmt.Sprintf("%s([1, 2]) == %s", name, rotateNumbers(2, k)), fmt.Sprintf("%s([1, 2, 3, 4]) == %s", name, rotateNumbers(4, k)),
		},
	}
}

func rotateNumbers(n, k int) string {
	out := make([]string, n)
	for i := range n {
		out[(i+k)%n] = fmt.Sprint(i + 1)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func longestRunTask(*rand.Rand) task {
	return task{"longest_run(text)", "returns the length of the longest run of one repeated character in a string, 0 for the empty string.", []string{
		equalTest("longest_run", "'aabbbc'", 3), equalTest("longest_run", "''", 0), equalTest("longest_run", "'abc'", 1), equalTest("longest_run", "'abbaaaa'", 4), equalTest("longest_run", "'zzz'", 3),
	}}
}

func medianTask(*rand.Rand) task {
	return task{"middle(numbers)", "returns the median of a list of numbers: the middle one of the sorted list, or the mean of the two middle ones; None for an empty list.", []string{
		"middle([3, 1, 2]) == 2", "middle([4, 1, 2, 3]) == 2.5", "middle([]) is None", "middle([5]) == 5", "middle([-1, -5, 10, 2]) == 0.5",
	}}
}

func digitsTask(chance *rand.Rand) task {
	base := randomBetween(chance, 3, 8)
	name := fmt.Sprintf("digit_sum_%d", base)
	sum := func(n int) (s int) {
		for ; n > 0; n /= base {
			s += n % base
		}
		return s
	}
	return task{name + "(n)", fmt.Sprintf("returns the sum of the digits of a non-negative integer written in base %d.", base), []string{
		equalTest(name, "10", sum(10)), equalTest(name, "0", 0), equalTest(name, "255", sum(255)), equalTest(name, "1000", sum(1000)), equalTest(name, fmt.Sprint(base), 1),
	}}
}

func betweenTask(chance *rand.Rand) task {
	low, high := randomBetween(chance, -5, 0), randomBetween(chance, 5, 12)
	name := "clamp_all"
	return task{name + "(numbers)", fmt.Sprintf("returns a list with every number limited to the range from %d to %d, without duplicates, in order of first occurrence.", low, high), []string{
		fmt.Sprintf("%s([1, 2, 1]) == [1, 2]", name), fmt.Sprintf("%s([100, 200]) == [%d]", name, high), fmt.Sprintf("%s([]) == []", name),
		fmt.Sprintf("%s([-50, %d, 3]) == [%d, 3]", name, low, low), fmt.Sprintf("%s([%d, 99, 4]) == [%d, 4]", name, high, high),
	}}
}

func swapVowelsTask(*rand.Rand) task {
	return task{"swap_vowels(text)", "returns a string in which the vowels (a, e, i, o, u in either case) are in reverse order while all other characters stay where they are.", []string{
		"swap_vowels('hello') == 'holle'", "swap_vowels('xyz') == 'xyz'", "swap_vowels('Apple') == 'epplA'", "swap_vowels('') == ''", "swap_vowels('Able was I') == 'Ibla wes A'",
	}}
}

func secondLargestTask(*rand.Rand) task {
	return task{"second_largest(numbers)", "returns the second largest distinct value of a list of numbers, None if there are fewer than two distinct values.", []string{
		"second_largest([4, 1, 3]) == 3", "second_largest([2, 2]) is None", "second_largest([5, 5, 4]) == 4", "second_largest([]) is None", "second_largest([-1, -2, -3]) == -2",
	}}
}

func equalTest(name, argument string, value int) string {
	return fmt.Sprintf("%s(%s) == %d", name, argument, value)
}
