package eval

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/eval"
)

func newShell(t *testing.T) stage.Shell {
	t.Helper()
	return stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return []*cobra.Command{Command(c, Kinds{})} })
}

const questions = `{"id":"q1","input":"1 + 1?","target":"2"}
{"id":"q2","input":"2 + 2?","target":"4"}
`

// A wrong input is refused with its place and a remedy before anything starts.
func TestRun_refuses(t *testing.T) {
	s := newShell(t)
	s.File("q.jsonl", questions)
	s.File("graded.jsonl", `{"input":"Why?","target":"because","scorer":"model_graded"}`)
	s.File("code.jsonl", questions+`{"id":"q3","input":"Write it.","target":"x","scorer":"command","metadata":{"command":"true"}}`)
	s.File("bad.jsonl", "{\"input\":\"x\",\"target\":\"y\"}\n{\"input\":\"x\"}\n")
	s.File("based.jsonl", `{"id":"q7","input":"x","target":"y","base":"nowhere"}`)
	s.File("checked.jsonl", `{"id":"q8","input":"x","scorer":"checks","checks":[{"name":"c"}]}`)
	s.File("team.yaml", "agents: [{id: agent_a, backend: {model: m, base_url: 'http://127.0.0.1:1/v1'}}]")
	s.File("known.yaml", "agents: [{id: agent_a, backend: {type: offline, params: {skill: 1, targets: q.jsonl}}}]")
	s.File("half.yaml", "agents: [{id: agent_a, backend: {type: offline, params: {skill: 1, targets: code.jsonl}}}]")
	for line, want := range map[string]string{
		"code.jsonl --config half.yaml":                            "agent agent_a cannot be asked question q3: the model of known skill has no right and wrong answer",
		"code.jsonl --config known.yaml":                           "agent agent_a cannot be asked question q3: the question is not in params.targets",
		"none.jsonl --offline":                                     "read the questions",
		"bad.jsonl --offline":                                      "bad.jsonl: line 2: no target",
		"graded.jsonl --offline":                                   "--grader",
		"based.jsonl --offline":                                    "question q7: its base: stat nowhere: no such file or directory; name a directory",
		"checked.jsonl --offline":                                  "question q8: its checks: entry 1 has no command",
		"q.jsonl --offline --arms best":                            `--arms: no arm "best"`,
		"q.jsonl --offline --arms team,team=none.yaml":             "the arm team=none.yaml: read the team configuration",
		"q.jsonl --offline --scorer best":                          `--scorer: no scorer "best"`,
		"q.jsonl --offline --epochs 0":                             "--epochs is 0; give at least 1",
		"q.jsonl --offline --concurrency 0":                        "--concurrency is 0; give at least 1",
		"q.jsonl --offline --limit -1":                             "take positive numbers",
		"q.jsonl --offline --fail-under team>=plain":               "--fail-under: \"team>=plain\": there is no arm plain",
		"q.jsonl --offline --id a/b":                               "--id a/b",
		"q.jsonl --config team.yaml --max-cost-usd 1":              "the price of the model m is unknown",
		"q.jsonl --config none.yaml":                               "read the team configuration",
		"q.jsonl --config known.yaml --grader team.yaml --arms  x": `no arm "x"`,
	} {
		code, _, stderr := s.Run(append([]string{"eval", "run"}, strings.Fields(line)...)...)
		require.Equal(t, cli.ExitUsage, code, "%s: %s", line, stderr)
		require.Contains(t, stderr, want, line)
	}
	s.StartedNothing()
}

// played writes the directory of an evaluation with three outcomes in two arms.
func played(t *testing.T, dir string, team []bool) {
	t.Helper()
	o, err := openOutput(dir, settings{ID: dir, Data: "q.jsonl", DataHash: "d", Team: "t", Arms: []string{"single", "team"}, Epochs: 1, Questions: len(team)})
	require.NoError(t, err)
	defer o.close()
	for i, right := range team {
		id := string(rune('a' + i))
		require.NoError(t, o.addSample(eval.Sample{ID: id, Epoch: 1, Arm: "team", Extracted: "<b>", Correct: &right, SessionID: "eval-x-" + id + "-1", Conduct: &eval.Conduct{Status: "consensus"}}))
		require.NoError(t, o.addSample(eval.Sample{ID: id, Epoch: 1, Arm: "single", Failed: "failed: no answer"}))
	}
	_, err = o.writeReport()
	require.NoError(t, err)
}

func TestReport(t *testing.T) {
	s := newShell(t)
	played(t, "eval-one", []bool{true, true, false})
	code, stdout, _ := s.Run("eval", "report", "one")
	require.Equal(t, cli.ExitOK, code)
	for _, want := range []string{"single  0 of 3  0.000", "team    2 of 3  0.667", "team less single", "0 agents were lost", "3 questions cannot tell; until then use one agent"} {
		require.Contains(t, stdout, want)
	}
	code, stdout, _ = s.Run("eval", "report", "eval-one", "--json")
	require.Equal(t, cli.ExitOK, code)
	var sum eval.Summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &sum))
	require.Equal(t, 3, sum.Arms["single"].Failed)
	require.Equal(t, eval.TooFew, sum.Verdict)

	require.NoError(t, os.Mkdir("one", 0o700))
	code, _, _ = s.Run("eval", "report", "one")
	require.Equal(t, cli.ExitOK, code, "a directory with the name of the ID is not an evaluation")

	code, _, stderr := s.Run("eval", "report", "two")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "read the evaluation: open eval-two")
	s.StartedNothing()
}

func TestCompare(t *testing.T) {
	s := newShell(t)
	played(t, "eval-before", []bool{false, true, false})
	played(t, "eval-after", []bool{true, true, true})
	code, stdout, _ := s.Run("eval", "compare", "before", "after")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "team of after less before    +66.7")
	code, stdout, _ = s.Run("eval", "compare", "before", "after", "--json")
	require.Equal(t, cli.ExitOK, code)
	var c comparison
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Pairs, 2)
	require.InDelta(t, .6667, c.Pairs[1].Difference, 1e-9)
	code, _, _ = s.Run("eval", "compare", "before", "none")
	require.Equal(t, cli.ExitUsage, code)
}

func TestGen(t *testing.T) {
	s := newShell(t)
	code, stdout, _ := s.Run("eval", "gen", "--seed", "3", "--count", "5")
	require.Equal(t, cli.ExitOK, code)
	read, err := eval.ReadQuestions([]byte(stdout), "")
	require.NoError(t, err)
	require.Len(t, read, 5)
	code, _, stderr := s.Run("eval", "gen", "--kinds", "poems")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "choose from arithmetic, choice, strings, code")
}
