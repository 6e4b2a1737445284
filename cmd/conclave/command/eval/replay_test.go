package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/eval"
)

// letters is a table of n questions: a is right on nine of ten, b on four of five, c never.
func letters(n int) string {
	var b strings.Builder
	b.WriteString("question_id\tcategory\tanswer\toptions\ta\tb\tc\n")
	for i := range n {
		right := func(is bool) string { return map[bool]string{true: "A", false: "B"}[is] }
		fmt.Fprintf(&b, "%d\tmath\tA\t4\t%s\t%s\tC\n", i, right(i%10 > 0), right(i%5 > 0))
	}
	return b.String()
}

const recordedYAML = `agents:
  - {id: one, backend: {type: recorded, params: {data: letters.tsv, member: a}}}
  - {id: two, backend: {type: recorded, params: {data: letters.tsv, member: b}}}
  - {id: three, backend: {type: recorded, params: {data: letters.tsv, member: c, votes: plurality}}}
`

func TestReplay(t *testing.T) {
	s := newShell(t)
	s.File("letters.tsv", letters(100))
	s.File("team.yaml", recordedYAML)
	code, stdout, stderr := s.Run("eval", "replay", "letters.tsv")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "recorded: the answers are recorded ones; no language model is asked")
	for _, want := range []string{"a     0.900", "team  0.900", "team less a", "100 questions: some member is right on 90.0 %", "b and c are both wrong on 20.0 %", "MIN_SUPPORT"} {
		require.Contains(t, stdout, want)
	}

	code, stdout, stderr = s.Run("eval", "replay", "letters.tsv", "--members", "c,b", "--json", "--out", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	var out replayed
	require.NoError(t, json.Unmarshal([]byte(stdout), &out))
	require.Equal(t, "c", out.Replay.Members[0].Name)
	require.Contains(t, strings.Join(out.Replay.Advice, "\n"), "list b first: worth about")
	data, err := os.ReadFile("out/summary.json")
	require.NoError(t, err)
	require.JSONEq(t, stdout, string(data))

	code, stdout, stderr = s.Run("eval", "replay", "letters.tsv", "--config", "team.yaml", "--sweep", "team_size.start=null,2")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "team_size.start=null")
	require.Contains(t, stdout, "team_size.start=2")

	s.File("four.tsv", strings.ReplaceAll(letters(10), "\tC\n", "\tC\tA\n"))
	data, err = os.ReadFile("four.tsv")
	require.NoError(t, err)
	s.File("four.tsv", strings.Replace(string(data), "\ta\tb\tc\n", "\ta\tb\tc\td\n", 1))
	code, stdout, stderr = s.Run("eval", "replay", "four.tsv", "--all-triples")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Len(t, strings.Split(strings.TrimSpace(stdout), "\n"), 5, "four teams of three")
	require.Contains(t, stdout, "b, c, d")
}

func TestReplay_refuses(t *testing.T) {
	s := newShell(t)
	s.File("letters.tsv", letters(20))
	s.File("bad.tsv", letters(1)+"1\tmath\n")
	s.File("offline.yaml", "agents: [{id: a, backend: {type: offline}}]")
	s.File("judge.yaml", recordedYAML+"orchestrator: {coordination_mode: decomposition}\n")
	s.File("plain.jsonl", questions)
	for line, want := range map[string]string{
		"replay none.tsv":                                         "read the recorded answers of none.tsv",
		"replay bad.tsv":                                          "bad.tsv: line 3: it has 2 columns, and the first line 7",
		"replay plain.jsonl":                                      "it has answers of 0 members",
		"replay letters.tsv --members a,d":                        `there are no recorded answers of "d"; the members are a, b, c`,
		"replay letters.tsv --config offline.yaml":                "agent a has a backend of type offline; replay agents of type recorded, or name the members of DATA with --members",
		"replay letters.tsv --sweep max_revotes":                  "give values, as in team_size.start=null,2",
		"replay letters.tsv --sweep max_revote=1":                 "did you mean max_revotes",
		"replay letters.tsv --sweep team_size.start=9":            "team_size.start",
		"calibrate none":                                          "name an evaluation, or a file of recorded answers",
		"calibrate letters.tsv --members d":                       `no recorded answers of "d"`,
		"replay letters.tsv --config judge.yaml":                  "coordination_mode: decomposition",
		"run letters.tsv --config offline.yaml --scorer graded_x": "no scorer",
	} {
		code, _, stderr := s.Run(append([]string{"eval"}, strings.Fields(line)...)...)
		require.Equal(t, cli.ExitUsage, code, "%s: %s", line, stderr)
		require.Contains(t, stderr, want, line)
	}
	s.StartedNothing()
}

// The calibration of a team keeps a promise of that team alone.
func TestCalibrate(t *testing.T) {
	s := newShell(t)
	s.File("letters.tsv", letters(400))
	s.File("team.yaml", recordedYAML)
	code, stdout, stderr := s.Run("eval", "calibrate", "letters.tsv", "--config", "team.yaml", "--out", "c.json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "c.json has the outcomes of 400 questions, by the mean of share, agreement, spread")
	require.Contains(t, stdout, "wrong: 0.2 – kept")
	require.Contains(t, stdout, "wrong: 0.01 – ")
	var c coordination.Calibration
	data, err := os.ReadFile("c.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &c))
	require.Equal(t, "letters.tsv", c.From)

	promised := recordedYAML + "orchestrator: {act_when: {wrong: 0.2, calibration: c.json}}\n"
	s.File("promised.yaml", promised)
	code, _, stderr = s.Run("eval", "replay", "letters.tsv", "--config", "promised.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	for want, text := range map[string]string{
		"it was made for another team (":   strings.Replace(promised, "votes: plurality", "votes: own", 1),
		"more questions would not help":    strings.Replace(promised, "wrong: 0.2", "wrong: 0.001", 1),
		"a promise needs a calibration of": recordedYAML + "orchestrator: {act_when: {wrong: 0.2}}\n",
	} {
		s.File("other.yaml", text)
		code, _, stderr = s.Run("eval", "replay", "letters.tsv", "--config", "other.yaml")
		require.Equal(t, cli.ExitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
}

// kept writes an evaluation of a team of two with n questions.
func kept(t *testing.T, n int, change func(*eval.Sample)) *output {
	t.Helper()
	o, err := openOutput("eval-x", settings{ID: "x", Arms: []string{"team"}, Identity: "h", Source: "team.yaml"})
	require.NoError(t, err)
	defer o.close()
	for i := range n {
		right := i%10 > 0
		sample := eval.Sample{ID: fmt.Sprint(i), Epoch: 1, Arm: "team", Correct: &right, Conduct: &eval.Conduct{
			Support: &coordination.Support{Share: 1},
			Members: []eval.Member{{Agent: "one", Key: "A", Right: right}, {Agent: "two", Key: "B"}},
		}}
		change(&sample)
		require.NoError(t, o.addSample(sample))
	}
	return o
}

func TestCalibrate_evaluation(t *testing.T) {
	s := newShell(t)
	kept(t, 300, func(*eval.Sample) {})
	code, stdout, stderr := s.Run("eval", "calibrate", "x", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	var c coordination.Calibration
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Equal(t, coordination.Calibration{Team: "h", From: "x", Questions: 300, Parts: []string{"share"}, Levels: []coordination.Level{{Score: 1, Acted: 300, Wrong: 30}}}, c)
	require.FileExists(t, "calibration.json")
}

func TestCalibrate_refusesEvaluations(t *testing.T) {
	for want, change := range map[string]func(*eval.Sample){
		"leaves questions undecided; evaluate it without act_when":    func(s *eval.Sample) { s.Failed = "undecided" },
		"has no decisions of the arm team with their support; run it": func(s *eval.Sample) { s.Conduct = nil },
	} {
		t.Run(want, func(t *testing.T) {
			s := newShell(t)
			kept(t, 3, change)
			code, _, stderr := s.Run("eval", "calibrate", "x")
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Contains(t, stderr, want)
		})
	}
}

func TestReport_writesSkill(t *testing.T) {
	s := newShell(t)
	s.File("team.yaml", "# ours\nagents:\n  - id: one\n    backend: {model: m}\n  - {id: two, backend: {model: m}}\n")
	kept(t, 200, func(*eval.Sample) {})
	code, _, stderr := s.Run("eval", "report", "x", "--write-skill", "skilled.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "skilled.yaml has the skill of each agent, from 200 questions")
	data, err := os.ReadFile("skilled.yaml")
	require.NoError(t, err)
	require.Contains(t, string(data), "# ours\n")
	require.Contains(t, string(data), "skill: 0.9 # of 200 questions in evaluation x")
	require.Contains(t, string(data), "skill: 0")

	s.File("other.yaml", "agents: [{id: one, backend: {model: m}}]")
	code, _, stderr = s.Run("eval", "report", "x", "--write-skill", "other.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "other.yaml has no agent two; name the file of the evaluated team")
}
