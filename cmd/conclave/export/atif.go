package export

import (
	"cmp"
	"encoding/json"
	"io"
	"time"

	"conclave/cmd/conclave/record"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The parts of a trajectory.
type (
	trajectory struct {
		Schema  string           `json:"schema_version"`
		Session string           `json:"session_id"`
		Agent   trajectoryAgent  `json:"agent"`
		Steps   []trajectoryStep `json:"steps"`
		Notes   string           `json:"notes,omitempty"`
		Final   finalMetrics     `json:"final_metrics"`
		Extra   map[string]any   `json:"extra,omitempty"`
	}
	trajectoryAgent struct {
		Name    string         `json:"name"`
		Version string         `json:"version"`
		Model   string         `json:"model_name,omitempty"`
		Extra   map[string]any `json:"extra,omitempty"`
	}
	trajectoryStep struct {
		ID          int              `json:"step_id"`
		Time        string           `json:"timestamp"`
		Source      string           `json:"source"` // system, user or agent
		Model       string           `json:"model_name,omitempty"`
		Message     string           `json:"message"`
		Reasoning   string           `json:"reasoning_content,omitempty"`
		Calls       []trajectoryCall `json:"tool_calls,omitempty"`
		Observation *observation     `json:"observation,omitempty"`
		Metrics     *metrics         `json:"metrics,omitempty"`
		Extra       map[string]any   `json:"extra,omitempty"`
	}
	trajectoryCall struct {
		ID        string          `json:"tool_call_id"`
		Name      string          `json:"function_name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	observation struct {
		Results []observed `json:"results"`
	}
	observed struct {
		Call    string `json:"source_call_id,omitempty"`
		Content string `json:"content"`
	}
	metrics struct {
		Prompt     int64    `json:"prompt_tokens"`
		Completion int64    `json:"completion_tokens"`
		Cached     int64    `json:"cached_tokens"`
		USD        *float64 `json:"cost_usd,omitempty"`
	}
	finalMetrics struct {
		Prompt     int64    `json:"total_prompt_tokens"`
		Completion int64    `json:"total_completion_tokens"`
		Cached     int64    `json:"total_cached_tokens"`
		USD        *float64 `json:"total_cost_usd,omitempty"`
		Steps      int      `json:"total_steps"`
	}
)

// writeATIF writes a session as one trajectory, in which the conversations of its steps
// follow each other. The extra fields of a trajectory step name the agent and its step.
func writeATIF(w io.Writer, r recorded) error {
	u := r.State.Cost
	t := trajectory{
		Schema: "ATIF-v1.4", Session: r.ID, Agent: trajectoryAgent{Name: "conclave", Version: "1", Extra: map[string]any{"agents": r.models()}},
		Notes: "a session of several agents: extra.agent and extra.step of each step name the conversation that it belongs to",
		Final: finalMetrics{Prompt: u.InputTokens, Completion: u.OutputTokens, Cached: u.CachedInputTokens, USD: u.TotalUSD},
		Extra: map[string]any{"query": r.Query, "status": r.State.Status, "winner": r.State.Winner},
		Steps: []trajectoryStep{},
	}
	for _, p := range r.Steps {
		t.conversation(r, p)
	}
	t.Final.Steps = len(t.Steps)
	return writeJSON(w, t)
}

// models returns the model of each agent.
func (r recorded) models() map[string]string {
	all := map[string]string{}
	for _, a := range r.Agents {
		all[a.ID] = a.Model
	}
	return all
}

// conversation appends the conversation of a step.
func (t *trajectory) conversation(r recorded, p *record.Step) {
	agent := r.Agent(p.Agent)
	reply := -1 // index of the reply whose calls are answered
	add := func(l step.Line, source, message string) *trajectoryStep {
		t.Steps = append(t.Steps, trajectoryStep{
			ID: len(t.Steps) + 1, Time: l.Time.UTC().Format(time.RFC3339Nano), Source: source, Message: message,
			Extra: map[string]any{"agent": p.Agent, "step": p.Number, "entry": string(l.Kind)},
		})
		return &t.Steps[len(t.Steps)-1]
	}
	for _, l := range r.transcripts[p].Lines {
		if l.Kind == loop.Wasted || l.Kind == loop.Compacted {
			add(l, "agent", "").Metrics = metricsOf(l.Usage)
		}
		for _, m := range l.Messages {
			switch m.Role {
			case llm.Assistant:
				one := add(l, "agent", m.Content)
				one.Model, one.Metrics, one.Reasoning, one.Calls = agent.Model, metricsOf(l.Usage), reasoning(m), callsOf(m)
				reply = len(t.Steps) - 1
			case llm.ToolRole:
				if reply >= 0 {
					t.Steps[reply].observe(m)
				}
			case llm.System:
				add(l, "system", m.Content)
			default:
				add(l, "user", m.Content)
			}
		}
		if l.Reason != "" && l.Kind == loop.Rejection && len(t.Steps) > 0 {
			t.Steps[len(t.Steps)-1].Extra["rejected"] = l.Reason
		}
	}
}

func (s *trajectoryStep) observe(m llm.Message) {
	if s.Observation == nil {
		s.Observation = &observation{}
	}
	result := observed{Content: m.Content}
	for _, call := range s.Calls {
		if call.ID == m.ToolCallID {
			result.Call = call.ID
		}
	}
	s.Observation.Results = append(s.Observation.Results, result)
}

func metricsOf(u *llm.Usage) *metrics {
	if u == nil || u.ModelCalls == 0 {
		return nil
	}
	return &metrics{u.InputTokens, u.OutputTokens, u.CachedInputTokens, u.TotalUSD}
}

// callsOf returns the calls of a reply. It wraps arguments that are not a JSON object in one.
func callsOf(m llm.Message) []trajectoryCall {
	var all []trajectoryCall
	for _, call := range m.ToolCalls {
		var object map[string]json.RawMessage
		arguments := json.RawMessage(cmp.Or(call.Arguments, "{}"))
		if json.Unmarshal(arguments, &object) != nil {
			arguments, _ = json.Marshal(map[string]string{"text": call.Arguments}) // strings always have a JSON form
		}
		all = append(all, trajectoryCall{call.ID, call.Name, arguments})
	}
	return all
}

func reasoning(m llm.Message) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var thought string
		if raw, ok := m.Extra[name]; ok && json.Unmarshal(raw, &thought) == nil && thought != "" {
			return thought
		}
	}
	return ""
}
