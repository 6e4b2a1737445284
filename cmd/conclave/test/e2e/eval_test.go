//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/eval"
)

// The same command continues an evaluation that was killed. It starts no session twice, and its
// figures equal those of an undisturbed one.
func TestEval(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	generated := c.conclave("eval", "gen", "--seed", "3", "--count", "4", "--kinds", "arithmetic,choice")
	require.Equal(t, 0, generated.code)
	data := c.file("questions.jsonl", generated.stdout)
	member := func(id string) string {
		return fmt.Sprintf("  - {id: %s, tools: {files: false}, backend: {type: offline, params: {skill: 0.6, judging: 0.8, seed: 2, targets: %q}}}\n", id, data)
	}
	team := c.file("team.yaml", "agents:\n"+member("agent_a")+member("agent_b")+member("agent_c"))
	command := func(id string) []string {
		return []string{"eval", "run", data, "--config", team, "--id", id, "--out", filepath.Join(c.home, id), "--concurrency", "2", "--arms", eval.DefaultArms + ",plain"}
	}

	killed := c.start(command("killed")...)
	killed.prints(t, "1 of 4 · ")
	require.NoError(t, killed.Process.Kill())
	killed.ends(t)
	before, err := os.ReadFile(filepath.Join(c.home, "killed", "samples.jsonl"))
	require.NoError(t, err)
	again := c.conclave(append(command("killed"), "--fail-under", "team>=0")...)
	require.Equal(t, 0, again.code, again.stderr)
	require.Contains(t, again.stderr, "4 of 4 · ")
	after, err := os.ReadFile(filepath.Join(c.home, "killed", "samples.jsonl"))
	require.NoError(t, err)
	whole := before[:strings.LastIndexByte(string(before), '\n')+1]
	require.True(t, strings.HasPrefix(string(after), string(whole)), "outcomes stay as they are")

	whole2 := c.conclave(append(command("whole"), "--automation", "--fail-under", "team>0.999999999")...)
	var undisturbed eval.Summary
	whole2.lastLine(t, &undisturbed)
	require.Equal(t, map[bool]int{true: 0, false: 3}[undisturbed.Arms["team"].Correct == 4], whole2.code, whole2.stderr)
	report := c.conclave("eval", "report", "--json", filepath.Join(c.home, "killed"))
	require.Equal(t, 0, report.code, report.stderr)
	var sum eval.Summary
	require.NoError(t, json.Unmarshal([]byte(report.stdout), &sum))
	for name, figures := range sum.Arms {
		require.Equal(t, 4, figures.N, name)
		require.Zero(t, figures.Failed+figures.Unparsed, name)
		require.Equal(t, undisturbed.Arms[name].Correct, figures.Correct, name)
		require.Equal(t, undisturbed.Arms[name].ModelCalls, figures.ModelCalls, name)
	}
	require.Len(t, sum.Pairs, 10)
	require.Contains(t, again.stdout, sum.Reason)

	samples, err := eval.ReadSamples(after)
	require.NoError(t, err)
	for _, s := range samples {
		if s.Arm == "team" || s.Arm == "plain" {
			require.FileExists(t, filepath.Join(c.home, "killed", "sessions", s.SessionID+".html"))
		}
	}
	require.FileExists(t, filepath.Join(c.home, "killed", "index.html"))
}

// Answers are scored by commands in a fresh copy of their files, which the team cannot see.
func TestEval_command(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("add.sh", "echo $(($1 + $2))"), answer("See add.sh.\nANSWER: add.sh"), answer("ANSWER: none"), answer("It is addition.\nANSWER: sum")},
		"grader":  {says("It names it.\nGRADE: C")},
	})
	c := newCLI(t)
	data := c.file("code.jsonl", `{"id":"files","input":"Write add.sh.","target":"test \"$(sh add.sh 2 3)\" = 5 && test -s seven.txt","scorer":"command","files":{"seven.txt":"7\n"}}
{"id":"checked","input":"Write add.sh again.","scorer":"checks","checks":[{"name":"text","command":"grep -q 'ANSWER: sum' \"$CONCLAVE_ANSWER\""}]}
{"id":"graded","input":"What is it?","target":"names addition","scorer":"model_graded"}
`)
	team := c.file("team.yaml", model.team("agent_a"))
	grader := c.file("grader.yaml", fmt.Sprintf("agent: {backend: {model: grader, base_url: %q, price_per_million: {input: 0, output: 0}}}\n", model.URL+"/v1"))
	run := c.conclave("eval", "run", data, "--config", team, "--grader", grader, "--arms", "single", "--concurrency", "1", "--out", filepath.Join(c.home, "out"), "--json")
	require.Equal(t, 0, run.code, run.stderr)
	lines, err := os.ReadFile(filepath.Join(c.home, "out", "samples.jsonl"))
	require.NoError(t, err)
	samples, err := eval.ReadSamples(lines)
	require.NoError(t, err)
	outcomes := map[string]bool{}
	for _, s := range samples {
		require.NotNil(t, s.Correct, "%+v", s)
		outcomes[s.ID] = *s.Correct
	}
	require.Equal(t, map[string]bool{"files": true, "checked": false, "graded": true}, outcomes)
}

// An evaluation ends with a parked session, and the same command goes on with it once the cause is
// mended. If no answer can be scored, the last line leads to a session.
func TestEval_parked(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {fails(http.StatusUnauthorized), answer("ANSWER: 4"), vote("agent1", "Mine.")},
		"model-b": {fails(http.StatusUnauthorized)},
	})
	c := newCLI(t)
	data := c.file("q.jsonl", `{"id":1,"input":"2 + 2?","target":4}`)
	evaluate := func(id, team string) output {
		return c.conclave("eval", "run", data, "--config", team, "--id", id, "--out", filepath.Join(c.home, id), "--arms", "single,team")
	}
	parks := c.file("parks.yaml", model.teamWith(orchestrator(map[string]any{"on_agent_failure": "park"}), "agent_a"))
	out := evaluate("parks", parks)
	require.Equal(t, 2, out.code, out.stderr)
	require.Contains(t, out.stderr, "session eval-parks-1-1 is parked")
	out = evaluate("parks", parks)
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, 3, model.calls("model-a"))

	out = evaluate("fails", c.file("fails.yaml", model.team("agent_b")))
	require.Equal(t, 2, out.code, out.stderr)
	require.Contains(t, out.stderr, "`conclave result eval-fails-1-1` shows one, and another --id asks again")
}
