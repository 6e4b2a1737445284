//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
)

// diligent is a Chat Completions server whose model obeys every prompt: it makes what a structured
// call requests, evaluates, carries out plans, scores, and votes or stops.
type diligent struct {
	*httptest.Server
	mu     sync.Mutex
	calls  int
	tokens int            // of all prompts with their tools, at four bytes each
	forms  []string       // names of the structured calls
	parts  map[string]int // number of prompts by the part whose criteria they show
}

func newDiligent(t *testing.T) *diligent {
	t.Helper()
	d := &diligent{parts: map[string]int{}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

// asked is a request, as far as the model reads it.
type asked struct {
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		ToolCalls []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Format *struct {
		Schema struct {
			Name   string `json:"name"`
			Schema struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (a asked) offers(tool string) bool {
	for _, t := range a.Tools {
		if t.Function.Name == tool {
			return true
		}
	}
	return false
}

func (a asked) called(tool string) bool {
	for _, m := range a.Messages {
		for _, c := range m.ToolCalls {
			if c.Function.Name == tool {
				return true
			}
		}
	}
	return false
}

// prompt returns the text of the user messages.
func (a asked) prompt() string {
	var b strings.Builder
	for _, m := range a.Messages {
		var text string
		if m.Role == "user" && json.Unmarshal(m.Content, &text) == nil {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

func (d *diligent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req asked
	_ = json.Unmarshal(body, &req)
	d.mu.Lock()
	d.calls++
	d.tokens += len(body) / 4
	number := d.calls
	if req.Format != nil {
		d.forms = append(d.forms, req.Format.Schema.Name)
	}
	if shown := partCriterion.FindAllString(string(body), -1); len(shown) > 0 {
		slices.Sort(shown)
		d.parts[strings.Join(slices.Compact(shown), " ")]++
	}
	d.mu.Unlock()
	message := map[string]any{"role": "assistant", "content": nil}
	if req.Format != nil {
		message["content"] = structured(req)
	} else {
		tool, arguments := d.act(req, number)
		data, _ := json.Marshal(arguments)
		message["tool_calls"] = []any{map[string]any{
			"id": fmt.Sprintf("call_%d", number), "type": "function", "function": map[string]any{"name": tool, "arguments": string(data)},
		}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("r%d", number), "object": "chat.completion", "model": "gpt-5.2",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
}

// structured is the reply to a structured call.
func structured(req asked) string {
	reply := map[string]any{}
	for name := range req.Format.Schema.Schema.Properties {
		switch req.Format.Schema.Name {
		case "evaluation_criteria":
			var criteria []any
			for i := range 4 {
				criteria = append(criteria, map[string]any{"text": fmt.Sprintf("Made criterion %d.", i+1), "category": "standard", "primary": i == 0, "verify_by": "Look.", "anti_patterns": []any{}})
			}
			reply[name] = criteria
		case "personas":
			reply[name] = "Made persona of " + name + "."
		case "subtasks":
			reply[name] = map[string]any{"subtask": "Made part of " + name + ".", "criteria": []any{map[string]any{"text": "Made criterion of " + name + ".", "category": "primary", "verify_by": "Look."}}}
		}
	}
	data, _ := json.Marshal(reply)
	return string(data)
}

var (
	criterionLine = regexp.MustCompile(`(?m)^- (E[0-9]+)\b`)
	partCriterion = regexp.MustCompile(`Made criterion of agent[0-9]+`)
	answerLabel   = regexp.MustCompile(`begin (agent[0-9]+)\.([0-9]+) ===`)
)

// act is the reply to a step's prompt. Second answers are good enough.
func (d *diligent) act(req asked, number int) (string, map[string]any) {
	prompt := req.prompt()
	labels := answerLabel.FindAllStringSubmatch(prompt, -1)
	second := slices.ContainsFunc(labels, func(l []string) bool { return l[2] != "1" })
	score := map[bool]float64{false: 5, true: 9}[second]
	scores := map[string]any{}
	for _, found := range criterionLine.FindAllStringSubmatch(prompt, -1) {
		scores[found[1]] = score
	}
	text := fmt.Sprintf("Answer %d.", number)
	switch {
	case req.offers("submit_evaluation"):
		return "submit_evaluation", submission(scores, second)
	case req.offers("submit"):
		return "submit", map[string]any{}
	case strings.Contains(prompt, "The plan starts from") && !req.called("get_task_plan"):
		return "get_task_plan", map[string]any{}
	case req.offers("submit_checklist") && !req.called("submit_checklist"):
		return "submit_checklist", checklistOf(prompt, labels, scores)
	case strings.Contains(prompt, "there is nothing left to do") && len(labels) > 2 && req.offers("stop"):
		return "stop", map[string]any{"status": "complete", "summary": "Done."}
	case req.offers("vote") && len(labels) > 0 && strings.Contains(prompt, "ote for") && (second || !req.called("submit_checklist")):
		return "vote", map[string]any{"agent_id": labels[0][1], "reason": "It is the best."}
	}
	return "new_answer", map[string]any{"content": text}
}

// checklistOf scores every answer shown.
func checklistOf(prompt string, labels [][]string, scores map[string]any) map[string]any {
	arguments := map[string]any{"scores": scores}
	if len(labels) > 1 && !strings.Contains(prompt, "# Your part") {
		all := map[string]any{}
		for _, l := range labels {
			all[l[1]+"."+l[2]] = scores
		}
		arguments["scores"] = all
	}
	if strings.Contains(prompt, "evaluator/critique_packet.md") {
		arguments["report_path"] = "evaluator/critique_packet.md"
	}
	return arguments
}

// submission is an evaluation: tasks for a first answer, converged for a second.
func submission(scores map[string]any, converged bool) map[string]any {
	packet := map[string]any{}
	for _, part := range []string{
		"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve", "improvement_spec", "verification_plan", "evidence_gaps",
	} {
		packet[part] = "As seen in the answer, with all the evidence that an evaluator can give."
	}
	if converged {
		return map[string]any{"packet": packet, "verdict": map[string]any{"verdict": "converged", "scores": scores}, "next_tasks": nil}
	}
	return map[string]any{"packet": packet, "verdict": map[string]any{"verdict": "iterate", "scores": scores}, "next_tasks": map[string]any{
		"objective": "A better answer.", "approach_assessment": map[string]any{"ceiling_status": "ceiling_not_reached"},
		"tasks":    []any{map[string]any{"description": "Better it", "implementation_guidance": "By care.", "verification": "Look."}},
		"preserve": []any{"the length"},
	}}
}

// Every team of the examples runs as it stands, with a scripted model; the one of local servers with
// the built-in model.
func TestExamples_policies(t *testing.T) {
	t.Parallel()
	examples := map[string]struct {
		status string
		forms  []string
		calls  int
	}{
		"criteria":           {status: "consensus", calls: 6},
		"generated_criteria": {status: "consensus", forms: []string{"evaluation_criteria"}},
		"checklist":          {status: "consensus"},
		"personas":           {status: "consensus", forms: []string{"personas"}, calls: 7},
		"decomposer":         {status: "presented", forms: []string{"subtasks"}},
		"decomposition":      {status: "presented"},
		"ensemble":           {status: "consensus", calls: 7},
		"evaluator":          {status: "consensus"},
		"budget":             {status: "consensus", calls: 6},
		"continuous":         {status: "consensus"},
		"person":             {status: "consensus", calls: 8},
		"local":              {status: "consensus"},
	}
	files, err := filepath.Glob("../../../../examples/teams/*.yaml")
	require.NoError(t, err)
	require.Len(t, examples, len(files), "every example has a run")
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newDiligent(t)
			c := newCLI(t, "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=k")
			team, err := filepath.Abs(filepath.Join("../../../../examples/teams", name+".yaml"))
			require.NoError(t, err)
			args := []string{"run", "--automation", "--config", team, "--session-id", "s1", "Do it well."}
			if name == "local" {
				args = append(args, "--offline")
			}
			out := c.conclave(args...)
			require.Equal(t, 0, out.code, out.stderr)
			result := out.result(t, want.status)
			require.Equal(t, want.forms, model.forms, "structured calls")
			t.Logf("%s: %d model calls, %d tokens of prompts", name, model.calls, model.tokens)
			if name != "local" {
				require.EqualValues(t, model.calls, result.Cost.ModelCalls, "every call counts")
			}
			if want.calls > 0 {
				require.Equal(t, want.calls, model.calls)
			}
			var state acts.State
			require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--json", "s1").stdout), &state))
			require.Len(t, state.Preparations, len(want.forms))
			for _, p := range state.Preparations {
				require.Empty(t, p.Fallback)
				require.Contains(t, p.Items[0], "Made ")
			}
			if name == "decomposer" {
				require.ElementsMatch(t, []string{"Made criterion of agent1", "Made criterion of agent2", "Made criterion of agent3"},
					slices.Collect(maps.Keys(model.parts)), "every agent is shown the criteria of its own part alone")
			}
			if name == "evaluator" {
				require.NotEmpty(t, state.Agents[0].Evaluation.Scores)
				pulled := filepath.Join(c.home, "pulled")
				require.Equal(t, 0, c.conclave("pull", "s1", pulled).code)
				require.FileExists(t, filepath.Join(pulled, "agents/agent_a/001/evaluator/critique_packet.md"))
				require.FileExists(t, filepath.Join(pulled, "agents/agent_a/001/evaluator/next_tasks.json"))
			}
		})
	}
}
