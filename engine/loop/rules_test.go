package loop_test

import (
	"context"
	"encoding/json"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team"
)

// Three sets of Rules prove that the loop serves each kind of step: the team's
// own, and thin ones of a pipeline's and of a scenario's step.

func member() *team.Rules {
	return team.New(team.Task{
		Query:   "How many moons has Mars?",
		Answers: []team.Answer{{Number: 1, Label: "agent1.1", Text: "Two."}, {Number: 2, Label: "agent2.3", Text: "Three."}},
		Offered: []string{team.KindNewAnswer, team.KindVote},
		Tools:   []string{"read_file", "write_file"},
		Frame:   "0f1e2d3c",
	})
}

// pipeline ends a step by a control action or by text. Two control actions in
// one reply cancel each other, while ordinary tools are run in any case.
type pipeline struct{}

func (pipeline) Offer() []llm.Tool {
	return []llm.Tool{{Name: "jump_to_step"}, {Name: "call_step"}}
}

func (pipeline) Updates(context.Context) ([]llm.Message, error) { return nil, nil }

func (pipeline) Judge(reply llm.Message) loop.Verdict {
	if len(reply.ToolCalls) == 0 {
		return loop.Verdict{Action: &loop.Action{Kind: "text", Payload: payload(reply.Content)}}
	}
	var control []llm.ToolCall
	for _, c := range reply.ToolCalls {
		if c.Name == "jump_to_step" || c.Name == "call_step" {
			control = append(control, c)
		}
	}
	v := loop.Verdict{Told: map[string]string{}}
	for _, c := range control {
		v.Told[c.ID] = "Only one of these at a time; none was taken."
	}
	if len(control) == 1 {
		v.Told[control[0].ID] = "On the way."
		v.Action = &loop.Action{Kind: control[0].Name, Payload: payload(control[0].Arguments)}
	}
	return v
}

// scenario ends a step by a report, and by nothing else.
type scenario struct{}

func (scenario) Offer() []llm.Tool { return []llm.Tool{{Name: "report_result"}} }

func (scenario) Updates(context.Context) ([]llm.Message, error) { return nil, nil }

func (scenario) Judge(reply llm.Message) loop.Verdict {
	if len(reply.ToolCalls) == 0 {
		return loop.Verdict{Rejected: "no_report", Say: "Finish by calling report_result."}
	}
	i := slices.IndexFunc(reply.ToolCalls, func(c llm.ToolCall) bool { return c.Name == "report_result" })
	if i < 0 {
		return loop.Verdict{}
	}
	report := reply.ToolCalls[i]
	if report.Arguments != "pass" && report.Arguments != "fail" {
		return loop.Verdict{Rejected: "invalid_report", Told: map[string]string{report.ID: "The status is pass or fail."}}
	}
	return loop.Verdict{
		Action: &loop.Action{Kind: "report", Payload: payload(report.Arguments)},
		Told:   map[string]string{report.ID: "Reported."},
	}
}

// informed adds updates to rules: one before each model call, while there are.
type informed struct {
	loop.Rules
	news []string
	err  error
}

func (i *informed) Updates(context.Context) ([]llm.Message, error) {
	if len(i.news) == 0 || i.err != nil {
		return nil, i.err
	}
	update := llm.Message{Role: llm.User, Content: i.news[0]}
	i.news = i.news[1:]
	if update.Content == "" {
		return nil, nil
	}
	return []llm.Message{update}, nil
}

func payload(s string) json.RawMessage {
	raw, _ := json.Marshal(s)
	return raw
}
