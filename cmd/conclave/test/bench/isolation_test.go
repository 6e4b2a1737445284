//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
)

// journey is the number of steps of the scenario.
const journey = 10

// BenchmarkIsolation runs the same ten steps twice with the same script: with an agent for each
// step, as scenarios do, and with one agent for all ten. It counts the bytes of the requests to the
// model, with four bytes for a token.
func BenchmarkIsolation(b *testing.B) {
	m := newModelServer(b, minds{"model-a": tester})
	var sent atomic.Int64
	m.Config.Handler = counting(m.Config.Handler, &sent)
	s := newStack(b, m)
	var each, one, ratio samples
	for b.Loop() {
		apart := s.tokens(b, &sent, apart())
		together := s.tokens(b, &sent, together())
		each.add(apart)
		one.add(together)
		ratio.add(apart / together)
	}
	b.ReportMetric(each.median(), "agent-each-tokens")
	b.ReportMetric(one.median(), "one-agent-tokens")
	b.ReportMetric(ratio.median(), "tokens-ratio")
	b.ReportMetric(0, "ns/op")
}

// counting sums the sizes of requests.
func counting(next http.Handler, sent *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		sent.Add(int64(len(body)))
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// tokens runs a scenario, which must pass, and returns the tokens of its requests.
func (s *stack) tokens(b *testing.B, sent *atomic.Int64, in scenarioflow.Input) float64 {
	b.Helper()
	s.sessions++
	before := sent.Load()
	in.Team = activities.DefaultTeam
	run, err := s.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{
		ID: fmt.Sprintf("journey-%d", s.sessions), TaskQueue: workflows.TaskQueue,
	}, scenarioflow.Type, in)
	require.NoError(b, err)
	var result acts.Result
	require.NoError(b, run.Get(b.Context(), &result))
	require.Equal(b, scenario.Pass, result.Status, result)
	return float64(sent.Load()-before) / 4
}

// words are the content of a step's file.
func words(number int) string {
	return fmt.Sprintf("# %02d Look at page %d\n\n## Actions\n\nKeep page %d, and look at it until you know it.\n\n## Expected Outcome\n\nIt is there.\n", number, number, number)
}

// apart is the scenario with its steps.
func apart() scenarioflow.Input {
	in := scenarioflow.Input{Plan: scenario.Plan{Slug: "apart", Title: "An agent for each step"}, Files: map[string]string{}}
	for n := 1; n <= journey; n++ {
		id := fmt.Sprintf("%02d", n)
		ref := scenario.StepRef{ID: id, Title: fmt.Sprint("Look at page ", n), File: id + "-look.md"}
		in.Plan.Steps = append(in.Plan.Steps, ref)
		in.Files[ref.File] = words(n)
	}
	return in
}

// together is one step with the text of all steps.
func together() scenarioflow.Input {
	var all strings.Builder
	for n := 1; n <= journey; n++ {
		all.WriteString(words(n) + "\n")
	}
	ref := scenario.StepRef{ID: "01", Title: "Look at all pages", File: "01-look.md"}
	return scenarioflow.Input{
		Plan:  scenario.Plan{Slug: "together", Title: "One agent", Steps: []scenario.StepRef{ref}},
		Files: map[string]string{ref.File: all.String()},
	}
}

var pages = regexp.MustCompile(`Keep page (\d+),`)

// tester visits the pages of its prompt in order, and reports.
func tester(r request) (call, time.Duration) {
	told := pages.FindAllStringSubmatch(strings.Join(r.said("user"), "\n"), -1)
	turn := len(r.said("assistant"))
	var calls []call
	for _, page := range told {
		n, _ := strconv.Atoi(page[1])
		calls = append(calls, look(n)...)
	}
	if turn < len(calls) {
		return calls[turn], 0
	}
	return call{"report_result", map[string]string{"status": "pass", "summary": "All pages are there."}}, 0
}

// look is one step: it writes a page of two kilobytes, the size of a small snapshot,
// reads it four times, and records evidence.
func look(page int) []call {
	name := fmt.Sprintf("page-%d.txt", page)
	calls := []call{write(name, strings.Repeat(fmt.Sprintf("What page %02d says. ", page), 100))}
	for range 4 {
		calls = append(calls, call{"read_file", map[string]string{"path": name}})
	}
	return append(calls, call{"record_evidence", map[string]string{"name": fmt.Sprintf("after-%d", page), "type": "stdout", "path": name}})
}
