package eval_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/eval"
)

func generateQuestions(t *testing.T, o eval.QuestionOptions) []eval.Question {
	t.Helper()
	data, err := eval.GenerateQuestions(o)
	require.NoError(t, err)
	questions, err := eval.ReadQuestions(data, "")
	require.NoError(t, err, "every question can be asked and scored")
	require.Len(t, questions, o.Count)
	return questions
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	all := generateQuestions(t, eval.QuestionOptions{Seed: 7, Count: 400, Kinds: eval.QuestionKinds()})
	inputs := map[string]bool{}
	for i, q := range all {
		kind := eval.QuestionKinds()[i%4]
		require.Equal(t, fmt.Sprintf("%s-%03d", kind, i+1), q.ID)
		require.JSONEq(t, fmt.Sprintf(`{"kind":%q,"seed":7}`, kind), string(q.Metadata))
		if kind == "code" {
			require.Equal(t, eval.Command, q.ScoredBy(""))
			continue
		}
		require.False(t, inputs[q.Input], "%s", q.Input)
		inputs[q.Input] = true
		_, right := q.Score("", "ANSWER: "+q.Target[0])
		require.True(t, right != nil && *right)
		for _, wrong := range q.Wrong() {
			_, right := q.Score("", "ANSWER: "+wrong)
			require.False(t, *right)
		}
		if kind == "arithmetic" {
			require.NotContains(t, q.Target[0], "-", "%s", q.Input)
		}
		if kind == "choice" {
			require.Len(t, q.Choices, 4)
		}
	}
	again, err := eval.GenerateQuestions(eval.QuestionOptions{Seed: 7, Count: 8, Kinds: eval.QuestionKinds()})
	require.NoError(t, err)
	whole, err := eval.GenerateQuestions(eval.QuestionOptions{Seed: 7, Count: 400, Kinds: eval.QuestionKinds()})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(whole), string(again)), "the first questions do not depend on the count")
	other, err := eval.GenerateQuestions(eval.QuestionOptions{Seed: 8, Count: 8, Kinds: eval.QuestionKinds()})
	require.NoError(t, err)
	require.NotEqual(t, again, other)
}

func TestQuestions_refuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]eval.QuestionOptions{
		"0 questions":                           {Kinds: eval.QuestionKinds()},
		"10001 questions":                       {Count: 10001, Kinds: eval.QuestionKinds()},
		"no kind of questions is given; choose": {Count: 1},
		`no kind of questions "poems"`:          {Count: 1, Kinds: []string{"poems"}},
	} {
		_, err := eval.GenerateQuestions(o)
		require.ErrorContains(t, err, want)
	}
}

// solutions are written by hand, independently of the tests that they must pass.
const solutions = `
def f(a, b):
    return lambda n: sum(i for i in range(n) if i % a == 0 or i % b == 0)
def rotate(k):
    return lambda items: [items[(i - k) % len(items)] for i in range(len(items))]
def digit_sum(base):
    def g(n):
        return 0 if n == 0 else n % base + g(n // base)
    return g
def longest_run(text):
    import itertools
    return max((len(list(g)) for _, g in itertools.groupby(text)), default=0)
def middle(numbers):
    import statistics
    return statistics.median(numbers) if numbers else None
def swap_vowels(text):
    found = [c for c in text if c in "aeiouAEIOU"]
    return "".join(found.pop() if c in "aeiouAEIOU" else c for c in text)
def second_largest(numbers):
    return sorted(set(numbers))[-2] if len(set(numbers)) > 1 else None
`

// Correct functions pass the hidden tests, and functions that return nothing fail them.
func TestQuestions_codeIsTested(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	answer := filepath.Join(t.TempDir(), "answer.md")
	seen := map[string]bool{}
	for _, q := range generateQuestions(t, eval.QuestionOptions{Seed: 1, Count: 40, Kinds: []string{"code"}}) {
		_, rest, _ := strings.Cut(q.Input, "Python 3 function ")
		name, _, _ := strings.Cut(rest, "(")
		if seen[name] {
			continue
		}
		seen[name] = true
		parts := strings.Split(name, "_")
		last := parts[len(parts)-1]
		solution := solutions
		switch {
		case strings.HasPrefix(name, "sum_multiples"):
			solution += name + " = f(" + parts[2] + ", " + last + ")\n"
		case strings.HasPrefix(name, "rotate"):
			solution += name + " = rotate(" + last + ")\n"
		case strings.HasPrefix(name, "digit_sum"):
			solution += name + " = digit_sum(" + last + ")\n"
		case name == "clamp_all":
			_, ends, _ := strings.Cut(q.Input, "the range from ")
			var low, high int
			_, err := fmt.Sscanf(ends, "%d to %d", &low, &high)
			require.NoError(t, err)
			solution += fmt.Sprintf("def clamp_all(numbers):\n    return list(dict.fromkeys(max(%d, min(%d, n)) for n in numbers))\n", low, high)
		}
		require.NoError(t, try(t, q.Target[0], answer, "So:\n\n```python\n"+solution+"```\n\nANSWER: "+name), "%s", q.Input)
		if len(seen) == 1 { // an interpreter takes long to start
			require.Error(t, try(t, q.Target[0], answer, "```python\ndef "+name+"(x):\n    return 'x'\n```"), "%s", name)
			require.Error(t, try(t, q.Target[0], answer, "ANSWER: "+name), "no code is no solution")
		}
	}
	require.Greater(t, len(seen), 8)
}

func try(t *testing.T, command, answer, text string) error {
	t.Helper()
	require.NoError(t, os.WriteFile(answer, []byte(text), 0o600))
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "CONCLAVE_ANSWER="+answer)
	return c.Run()
}
