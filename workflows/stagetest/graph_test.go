//go:build simulate

package stagetest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	pipelineacts "conclave/activities/pipeline"
	scenarioacts "conclave/activities/scenario"
	"conclave/engine/scenario"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
)

// playPipeline runs a pipeline: an agent, which may jump to or call another one, tools, and a team.
func playPipeline(w *world) func(*world) {
	w.root = "p"
	agent := map[string]any{"id": "agent_a", "backend": map[string]any{"type": "openai", "model": "m"}, "tools": map[string]any{"shell": true}}
	steps := []map[string]any{
		{"name": "main", "agent": "agent_a", "prompt": "Do it.", "destinations": []string{"side", "check"}, "next": "check"},
		{"name": "side", "agent": "agent_a", "prompt": "Help.", "destinations": []string{"main"}},
		{"name": "check", "kind": "tools", "calls": []map[string]any{{"tool": "run_command", "args": map[string]any{"command": "check"}}}, "next": "end"},
		{"name": "end", "agent": "agent_a", "prompt": "Say what was done.", "history": true},
	}
	if w.pick("setting team", "none", "a step") == "a step" {
		steps[2]["next"] = "decide"
		steps = append(steps, map[string]any{"name": "decide", "kind": "session", "prompt": "Decide.", "config": w.team(), "next": "end"})
	}
	if branches := w.pick("setting branches", "none", "all", "any", "items"); branches != "none" {
		steps[0]["next"] = "fork"
		fork := map[string]any{"name": "fork", "kind": "parallel", "branches": map[string]any{"a": "left", "b": "right"}, "next": "check"}
		switch branches {
		case "any":
			fork["join"] = "any"
		case "all":
			fork["on_branch_failure"] = w.pick("setting on_branch_failure", "fail", "continue")
		case "items":
			fork = map[string]any{"name": "fork", "kind": "for_each", "items": []string{"x", "y", "z"}, "step": "right", "at_once": 2, "next": "check"}
			fork["on_item_failure"] = w.pick("setting on_item_failure", "fail", "continue")
		}
		if on := w.pick("setting on_conflict", "fail", "check"); on == "check" {
			fork["on_conflict"] = on
		}
		steps = append(steps, fork,
			map[string]any{"name": "left", "agent": "agent_a", "prompt": "Do the left."},
			map[string]any{"name": "right", "agent": "agent_a", "prompt": "Do the right.", "next": "look"},
			map[string]any{"name": "look", "kind": "tools", "calls": []map[string]any{{"tool": "run_command", "args": map[string]any{"command": "look"}}}},
		)
		if branches == "items" {
			steps = slices.Delete(steps, len(steps)-3, len(steps)-2)
		}
	}
	gate := map[string]any{"name": "gate", "kind": "approval", "question": "Go on?"}
	switch w.pick("setting gate", "none", "none", "before the end", "in a branch") {
	case "before the end":
		gate["next"] = []map[string]any{{"when": map[string]any{"approved": true}, "to": "end"}, {"to": "again"}}
		again := map[string]any{"name": "again", "kind": "approval", "question": "When?", "options": []string{"now", "later"}}
		steps[2]["next"], steps = "gate", append(steps, gate, again)
	case "in a branch":
		if at := slices.IndexFunc(steps, func(s map[string]any) bool { return s["name"] == "right" }); at >= 0 {
			gate["next"] = "look"
			steps[at]["next"], steps = "gate", append(steps, gate)
		}
	}
	definition := map[string]any{
		"start": "main", "agents": []any{agent}, "steps": steps, "limits": map[string]any{"max_transitions": 8},
		"on_step_failure": w.pick("setting on_step_failure", "stop", "park"),
	}
	config, _ := json.Marshal(definition)
	w.resumed = func() any { return pipelineflow.Input{Resume: true} }
	return func(w *world) {
		w.temporal.begin(pipelineflow.Type, w.root, pipelineflow.Input{Request: "What is right?", Config: config}, "", nil, nil)
	}
}

// playScenario runs a scenario of three steps.
func playScenario(w *world) func(*world) {
	w.root = "j"
	plan := scenario.Plan{Slug: "shop", Title: "Shop"}
	files := map[string]string{}
	for n := 1; n <= 3; n++ {
		ref := scenario.StepRef{ID: fmt.Sprintf("%02d", n), Title: "Step", File: fmt.Sprintf("%02d-step.md", n)}
		plan.Steps, files[ref.File] = append(plan.Steps, ref), "# Step\n\nLook.\n"
	}
	plan.RequireEvidence = w.pick("setting require_evidence", "false", "true") == "true"
	plan.OnLostTools = w.pick("setting on_lost_tools", "", scenario.Tell)
	team, _ := json.Marshal(map[string]any{"agents": []any{map[string]any{
		"id": "tester", "backend": map[string]any{"type": "openai", "model": "m"},
	}}})
	w.resumed = func() any { return scenarioflow.Input{Resume: true} }
	return func(w *world) {
		w.temporal.begin(scenarioflow.Type, w.root, scenarioflow.Input{Plan: plan, Files: files, PRD: "# Shop\n", Config: team}, "", nil, nil)
	}
}

func (f *facts) concludedPipeline(run *flow) {
	var r pipelineacts.Result
	if run.err != nil {
		f.w.people.goOn(run)
		return
	}
	if err := run.env.GetWorkflowResult(&r); err != nil {
		f.w.breaks(readersSee, "the result: %v", err)
		return
	}
	var written pipelineacts.Result
	var status pipelineacts.State
	f.decode("pipelines/p/result.json", &written)
	f.decode("pipelines/p/status.json", &status)
	if written.Status != r.Status || written.Final != r.Final || written.Usage.ModelCalls != r.Usage.ModelCalls || len(written.Trace) != len(r.Trace) {
		f.w.breaks(readersSee, "the run ended %s with %q, result.json says %s with %q", r.Status, r.Final, written.Status, written.Final)
	}
	if status.Status != string(r.Status) || len(status.Trace) != len(r.Trace) {
		f.w.breaks(readersSee, "the run ended %s after %d steps, status.json says %s after %d", r.Status, len(r.Trace), status.Status, len(status.Trace))
	}
	f.checkCalls(r.Usage)
	f.checkBranches(r)
	f.checkGates(r)
	f.ended = run
	if r.Status == "error" {
		f.w.people.goOn(run)
	}
}

// checkGates requires that people have allowed as often as a gate was passed.
func (f *facts) checkGates(r pipelineacts.Result) {
	passed := 0
	for _, g := range r.Trace {
		if g.Step == "gate" && g.Approved != nil && *g.Approved {
			passed++
		}
	}
	if passed > len(f.allowed) {
		f.w.breaks(askedFirst, "the gate was passed %d times, and people have allowed %d times", passed, len(f.allowed))
	}
}

// checkBranches requires that each join has the ends of all branches, each of which ended once before it.
func (f *facts) checkBranches(r pipelineacts.Result) {
	want := map[string]int{"all": 2, "any": 1, "items": 3}[f.w.settings["branches"]]
	ended := map[string]int{} // completions since the last join, by branch
	for _, g := range r.Trace {
		last := g.Step == "left" || g.Step == "look"
		switch {
		case g.Branch != "" && last && g.Status == "completed":
			ended[string(g.Branch)]++
		case g.Step == "fork" && g.Number > 0 && g.Branch == "":
			if len(ended) < want && f.w.settings["on_branch_failure"] != "continue" && f.w.settings["on_item_failure"] != "continue" {
				f.w.breaks(joinsComplete, "the join %d has the branches %v", g.Number, ended)
			}
			for branch, n := range ended {
				if n > 1 && f.w.settings["on_step_failure"] != "park" {
					f.w.breaks(joinsComplete, "branch %s ended %d times before the join %d", branch, n, g.Number)
				}
			}
			ended = map[string]int{}
		}
	}
}

func (f *facts) concludedScenario(run *flow) {
	var r scenarioacts.Result
	if run.err != nil {
		f.w.people.goOn(run)
		return
	}
	if err := run.env.GetWorkflowResult(&r); err != nil {
		f.w.breaks(readersSee, "the result: %v", err)
		return
	}
	root := "scenarios/shop/runs/j/"
	var written scenarioacts.Result
	f.decode(root+"result.json", &written)
	if written.Status != r.Status || len(written.Steps) != len(r.Steps) || written.Cost.ModelCalls != r.Cost.ModelCalls {
		f.w.breaks(readersSee, "the run ended %s after %d steps and %d calls, result.json says %s after %d and %d",
			r.Status, len(r.Steps), r.Cost.ModelCalls, written.Status, len(written.Steps), written.Cost.ModelCalls)
	}
	for _, s := range written.Steps {
		for _, path := range s.EvidencePaths {
			if _, there := f.w.bucket.objects[root+path]; !there {
				f.w.breaks(readersSee, "step %s has the evidence %s, which is not there", s.ID, path)
			}
		}
	}
	f.checkCalls(r.Cost)
	f.ended = run
	if r.Status != scenario.Pass {
		f.w.people.goOn(run)
	}
}

// decode reads a document that has to be there.
func (f *facts) decode(key string, into any) {
	if err := json.Unmarshal(f.w.bucket.objects[key].body, into); err != nil {
		f.w.breaks(readersSee, "%s: %v", key, err)
	}
}

// rootOf returns the root of the run to which a key belongs.
func rootOf(key string) string {
	parts := strings.Split(key, "/")
	if parts[0] == "scenarios" {
		return strings.Join(parts[:min(4, len(parts))], "/") + "/"
	}
	return strings.Join(parts[:min(2, len(parts))], "/") + "/"
}
