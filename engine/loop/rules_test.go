package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Three small sets of Rules show that the loop is suitable for each product: team, pipeline and
// scenario.

// Codes of a team's rejections.
const (
	noToolCalls = "no_tool_calls"
	unknownTool = "unknown_tool"
	notOffered  = "tool_not_offered"
	both        = "vote_and_answer"
	invalid     = "invalid_arguments"
)

// team ends by new_answer or vote, and gets others' answers as updates. Its state is
// learned from entries.
// Moment 2n is the safe point after n replies, moment 2n-1 the confirmation of the n-th
// reply.
type team struct {
	news   []int  // moment at which each of the others' answers is there, rising
	endsAt int    // moment from which the step is to end itself; 0 for never
	ends   string // why

	replies, shown, drafts int
}

// memo is a team's note in an entry.
type memo struct {
	Shown  int `json:"shown,omitempty"`
	Drafts int `json:"drafts,omitempty"`
}

func (m *team) Learn(_ context.Context, e loop.Entry) error {
	if e.Kind == loop.Reply {
		m.replies++
	}
	if e.Note == nil {
		return nil
	}
	var noted memo
	err := json.Unmarshal(e.Note, &noted)
	m.shown += noted.Shown
	m.drafts += noted.Drafts
	return err
}

func (m *team) Updates(context.Context) (loop.Update, error) { return m.at(2 * m.replies) }

func (m *team) Confirm(context.Context, loop.Action) (loop.Update, error) {
	return m.at(2*m.replies - 1)
}

// due returns the number of answers available at a moment.
func (m *team) due(moment int) int {
	n := 0
	for _, at := range m.news {
		if at <= moment {
			n++
		}
	}
	return n
}

func (m *team) at(moment int) (loop.Update, error) {
	if m.endsAt > 0 && moment >= m.endsAt {
		return loop.Update{}, &loop.EndedError{Why: m.ends}
	}
	due := m.due(moment)
	if due == m.shown {
		return loop.Update{}, nil
	}
	var u loop.Update
	for n := m.shown + 1; n <= due; n++ {
		u.Messages = append(u.Messages, llm.Message{Role: llm.User, Content: newsOf(n)})
	}
	u.Note = raw(memo{Shown: due - m.shown})
	return u, nil
}

func newsOf(n int) string { return fmt.Sprintf("agent%d has answered", n) }

// Offer offers the vote if there is an answer to vote for.
func (m *team) Offer() []llm.Tool {
	offered := []llm.Tool{{Name: "new_answer"}, {Name: "draft"}}
	if m.shown > 0 {
		offered = append(offered, llm.Tool{Name: "vote"})
	}
	return offered
}

// Judge depends only on the entries learned.
func (m *team) Judge(reply llm.Message) loop.Ruling {
	code := m.refuses(reply)
	told := map[string]string{}
	v := loop.Ruling{Rejected: code, Results: told, Withdrawn: "Not counted: there is news."}
	if code != "" {
		for _, c := range reply.ToolCalls {
			told[c.ID] = "Refused: " + code
		}
		v.Say = "Call a tool."
		return v
	}
	drafts := 0
	for _, c := range reply.ToolCalls {
		switch c.Name {
		case "draft":
			drafts++
			told[c.ID] = fmt.Sprintf("Draft %d.", m.drafts+drafts)
		case "new_answer", "vote":
			told[c.ID] = "Counted."
			v.Action = &loop.Action{Kind: c.Name, Payload: raw(map[string]any{"with": c.Arguments, "drafts": m.drafts, "shown": m.shown})}
		}
	}
	if drafts > 0 {
		v.Note = raw(memo{Drafts: drafts})
	}
	return v
}

func (m *team) refuses(reply llm.Message) string {
	if len(reply.ToolCalls) == 0 {
		return noToolCalls
	}
	used := map[string]int{}
	for _, c := range reply.ToolCalls {
		used[c.Name]++
		switch c.Name {
		case "read_file", "write_file", "draft":
		case "vote", "new_answer":
			if !json.Valid([]byte(c.Arguments)) || c.Arguments == "{}" {
				return invalid
			}
		default:
			return unknownTool
		}
	}
	switch {
	case used["vote"] > 0 && m.shown == 0, m.drafts+used["draft"] > 2:
		return notOffered
	case used["vote"]+used["new_answer"] > 1:
		return both
	}
	return ""
}

// quiet are rules without updates.
type quiet struct{}

func (quiet) Updates(context.Context) (loop.Update, error) { return loop.Update{}, nil }

func (quiet) Confirm(context.Context, loop.Action) (loop.Update, error) { return loop.Update{}, nil }
func (quiet) Learn(context.Context, loop.Entry) error                   { return nil }

// pipeline ends a step with a control action or with text. Two control actions in one reply cancel
// each other; ordinary tools always run.
type pipeline struct{ quiet }

func (pipeline) Offer() []llm.Tool {
	return []llm.Tool{{Name: "jump_to_step"}, {Name: "call_step"}}
}

func (pipeline) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		return loop.Ruling{Action: &loop.Action{Kind: "text", Payload: raw(reply.Content)}}
	}
	var control []llm.ToolCall
	for _, c := range reply.ToolCalls {
		if c.Name == "jump_to_step" || c.Name == "call_step" {
			control = append(control, c)
		}
	}
	v := loop.Ruling{Results: map[string]string{}}
	for _, c := range control {
		v.Results[c.ID] = "Only one of these at a time; none was taken."
	}
	if len(control) == 1 {
		v.Results[control[0].ID] = "On the way."
		v.Action = &loop.Action{Kind: control[0].Name, Payload: raw(control[0].Arguments)}
	}
	return v
}

// scenario ends a step only with a report.
type scenario struct{ quiet }

func (scenario) Offer() []llm.Tool { return []llm.Tool{{Name: "report_result"}} }

func (scenario) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		return loop.Ruling{Rejected: "no_report", Say: "Finish by calling report_result."}
	}
	i := slices.IndexFunc(reply.ToolCalls, func(c llm.ToolCall) bool { return c.Name == "report_result" })
	if i < 0 {
		return loop.Ruling{}
	}
	report := reply.ToolCalls[i]
	if report.Arguments != "pass" && report.Arguments != "fail" {
		return loop.Ruling{Rejected: "invalid_report", Results: map[string]string{report.ID: "The status is pass or fail."}}
	}
	return loop.Ruling{
		Action:  &loop.Action{Kind: "report", Payload: raw(report.Arguments)},
		Results: map[string]string{report.ID: "Reported."},
	}
}

func raw(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}
