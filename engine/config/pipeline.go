package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// Pipeline is the definition of a step graph: named steps and the rules that lead from
// one to the next. Its tags specify the keys, as those of Team do.
type Pipeline struct {
	Start  string         `json:"start" doc:"The step that a run begins with."`
	Agents []Agent        `json:"agents,omitempty" doc:"The agents that the steps name, as in a team."`
	Steps  []PipelineStep `json:"steps" doc:"The steps of the graph."`
	Limits pipelineLimits `json:"limits" doc:"Bounds that end an endless run."`

	Inputs  *llm.DataSchema `json:"inputs,omitempty" doc:"A JSON Schema, of type object, of the inputs of a run, which templates name as {{ .inputs.NAME }}. null: a run has a request alone."`
	Finally string          `json:"finally,omitempty" doc:"The step that runs at each end of a run but terminate, with its own limits: it is not cancelled with the run, and its failure makes a completed run end with the status error."`
	Result  string          `json:"result,omitempty" doc:"The step whose newest text is that of the run; without one it is the last step's."`

	OnStepFailure string `json:"on_step_failure" default:"stop" enum:"stop,park" doc:"When a step fails for good and no rule names its failure: stop ends the run with the status error; park waits for retry or cancel."`
}

// parkOnStepFailure is the OnStepFailure with which a failed step waits for a person.
const parkOnStepFailure = "park"

type pipelineLimits struct {
	MaxTransitions int `json:"max_transitions" default:"100" min:"1" max:"1000" doc:"How often control passes from step to step, calls and returns included."`
	MaxCallDepth   int `json:"max_call_depth" default:"8" min:"1" max:"32" doc:"How many callers can wait for a step that they called."`

	Steps   *int     `json:"steps,omitempty" min:"1" max:"100000" doc:"How many steps a run may enter, those of all branches and items together; then it ends with the status error. null: 2000."`
	Seconds *int     `json:"seconds,omitempty" min:"1" max:"31536000" doc:"How long a run may take, without the time it is paused or parked; then it ends with the status error. null: no limit."`
	CostUSD *float64 `json:"cost_usd,omitempty" min:"0" doc:"US dollars that a run may spend, more than 0; then it ends with the status error. Every model needs a known price. null: no limit."`
}

// StepLimits bound all visits of a step together. nil sets no limit.
type StepLimits struct {
	Seconds    *int     `json:"seconds,omitempty" min:"1" max:"31536000" doc:"How long the step may take in all its visits; then it ends with the status error. null: no limit."`
	ModelCalls *int     `json:"model_calls,omitempty" min:"1" doc:"How many model calls the step may make in all its visits; then it ends with the status max_iterations. null: no limit."`
	CostUSD    *float64 `json:"cost_usd,omitempty" min:"0" doc:"US dollars that the step may spend in all its visits, more than 0; then it ends with the status error. Every model needs a known price. null: no limit."`
}

// visits limits how often a step is entered.
type visits struct {
	Count int    `json:"count" default:"1" min:"1" max:"1000" doc:"How often the step may be entered. Returns from calls and retries are not counted."`
	Then  string `json:"then,omitempty" doc:"The step that is entered instead after that; without one the run ends."`
}

// retry tries a step again.
type retry struct {
	Attempts       int      `json:"attempts" default:"2" min:"2" max:"100" doc:"How often the step is tried in one visit, the first time included."`
	BackoffSeconds float64  `json:"backoff_seconds" default:"0" min:"0" max:"3600" doc:"The wait before the second try, in seconds; each wait is twice as long as the one before, at most an hour."`
	On             []string `json:"on,omitempty" enum:"error,max_iterations,cancelled" doc:"The ends after which the step is tried again, without any: error; cancelled is that of a session."`
}

// Policy returns the retry of the pipeline.
func (r *retry) Policy() pipeline.Retries {
	if r == nil {
		return pipeline.Retries{}
	}
	p := pipeline.Retries{Attempts: r.Attempts, Seconds: r.BackoffSeconds}
	for _, status := range r.On {
		p.On = append(p.On, pipeline.Status(status))
	}
	if len(p.On) == 0 {
		p.On = []pipeline.Status{pipeline.Failed}
	}
	return p
}

// PipelineStep is one step of a graph.
type PipelineStep struct {
	Name          string          `json:"name" doc:"The step's name: a lower-case letter, then up to 31 lower-case letters, digits, _ or -."`
	Kind          pipeline.Kind   `json:"kind" default:"agent" enum:"agent,tools,session,parallel,for_each,pipeline,approval" doc:"agent is a model with tools; tools is a list of tool calls without a model; session is a team whose decision is the step's text; parallel runs branches at the same time; for_each runs a branch for each item of a list; pipeline runs another pipeline as a step; approval asks a person and waits for the reply."`
	Agent         string          `json:"agent,omitempty" doc:"The agent that runs the step, or, for a tools step, lends its tools; without a name the first one."`
	Prompt        string          `json:"prompt,omitempty" doc:"The system message of an agent's step; put before the request of a session's."`
	Destinations  []string        `json:"destinations,omitempty" doc:"The steps that jump_to_step and call_step can name; for agents only."`
	Next          []branch        `json:"next,omitempty" single:"true" shorthand:"to" doc:"Where the run goes on when the step has ended and no caller waits for it: a step, or a list of {when: {status: max_iterations}, to: STEP}, of which the first match counts."`
	MaxIterations int             `json:"max_iterations" default:"50" min:"1" max:"10000" doc:"How many model calls the step can make in one visit, those after a call it made included."`
	MaxVisits     *visits         `json:"max_visits,omitempty" doc:"How often the step is entered, and the step that takes its place after that: {count: 3, then: STEP}. null: no limit."`
	Limits        StepLimits      `json:"limits,omitzero" doc:"Limits of all visits of the step together."`
	Output        *llm.DataSchema `json:"output,omitempty" doc:"A JSON Schema of the step's output, which templates name as {{ .steps.NAME.output }}: an agent ends the step with submit_output, a team decides on data, a tools step prints JSON. null: the step has a text alone."`
	End           string          `json:"end,omitempty" doc:"How a run that ends with this step has ended, in a word of your own, such as escalated."`
	Retry         *retry          `json:"retry,omitempty" doc:"How often the step is tried again when it ends badly, before its rules are looked at: {attempts: 3, backoff_seconds: 20, on: [error]}. null: never."`
	History       history         `json:"history" default:"none" enum:"all,last,none" booleans:"all,none" doc:"Which texts of the steps before it the step is shown: all of them, the last of every step, or none. true is all, false is none."`

	Tools      *builtinTools `json:"tools,omitempty" doc:"The built-in tools of the step, in place of its agent's."`
	MCPServers *[]MCPServer  `json:"mcp_servers,omitempty" shorthand:"name" doc:"The MCP servers of the step, in place of its agent's, in the same form."`

	Calls       []toolUse `json:"calls,omitempty" doc:"The tool calls of a tools step, in order."`
	OnToolError string    `json:"on_tool_error,omitempty" default:"continue" enum:"continue,fail" doc:"When a call of a tools step fails: continue makes the next call and ends the step as completed; fail makes no other call and ends the step with the status error."`

	Branches        map[string]string `json:"branches,omitempty" doc:"The branches of a parallel step: a name for each and the step that it begins with, as {security: audit, style: lint}. A branch ends where its line has no next."`
	Join            string            `json:"join,omitempty" enum:"all,any" doc:"Which branches a parallel step waits for: all, or any, the first that completes; the others are then cut off. Without it all."`
	OnBranchFailure string            `json:"on_branch_failure,omitempty" enum:"fail,continue" doc:"When a branch of a parallel step fails: fail ends the step with the status error; continue waits for the other branches. Without it fail, and continue with join: any."`
	OnConflict      string            `json:"on_conflict,omitempty" doc:"When branches or items changed the same file differently: fail ends the step with the status error; a step comes next and finds both sides in .conclave/branches/NAME/. Without it fail, unless a rule names the conflict."`

	Items         any    `json:"items,omitempty" doc:"The list that a for_each goes through: a list, or {from: STEP, path: files} for a list in the output of a step."`
	Each          string `json:"step,omitempty" doc:"The step with which each item of a for_each begins, or a nested pipeline that is put in."`
	AtOnce        *int   `json:"at_once,omitempty" min:"1" max:"100" doc:"How many items of a for_each run at the same time. null: 8."`
	MaxItems      *int   `json:"max_items,omitempty" min:"1" max:"10000" doc:"How many items a for_each goes through; a longer list ends it with the status error. null: 500."`
	OnItemFailure string `json:"on_item_failure,omitempty" enum:"fail,continue" doc:"When an item of a for_each fails: fail ends the step with the status error; continue goes on with the other items. Without it fail."`

	File   string         `json:"file,omitempty" doc:"The file of a step that is another pipeline, beside this one; it is put in before a run starts."`
	Inputs map[string]any `json:"inputs,omitempty" doc:"The inputs of the pipeline in the file: values, or fields of this one such as {{ .item }}."`
	Result string         `json:"result,omitempty" doc:"The step whose newest text is that of a nested pipeline; set where its file is put in."`

	Question string   `json:"question,omitempty" doc:"What an approval step asks a person; a template. The reply approves or denies, which rules tell apart by approved."`
	Options  []string `json:"options,omitempty" doc:"What the person can choose from, 2 to 10 of them; the choice is the step's text, and a denial is still possible. Without options the reply approves or denies."`

	Team   string `json:"team,omitempty" doc:"The team of a session step: a name from the worker's configuration."`
	Config *Team  `json:"config,omitempty" doc:"The team of a session step, in place of a name."`
}

// MarshalJSON omits the keys of later versions if they have their defaults, so that the
// hashes of existing runs do not change.
func (s PipelineStep) MarshalJSON() ([]byte, error) {
	type plain PipelineStep
	if s.OnToolError == Defaults[PipelineStep]().OnToolError {
		s.OnToolError = ""
	}
	return json.Marshal(plain(s))
}

// StopsAtFailure reports whether a failed call fails the step.
func (s PipelineStep) StopsAtFailure() bool { return s.OnToolError == failOnToolError }

// Contents returns the conditions of each next rule on the step's content.
func (s PipelineStep) Contents() []pipeline.Content {
	var all []pipeline.Content
	for _, b := range s.Next {
		all = append(all, pipeline.Content{TextMatches: b.When.TextMatches, Output: b.When.Output})
	}
	return all
}

// branch is one rule that leads to the next step.
type branch struct {
	When condition `json:"when" doc:"The condition on the step that ended; without one the rule always applies."`
	To   string    `json:"to" doc:"The step that comes next."`
}

// Rule returns the rule of the pipeline.
func (b branch) Rule() pipeline.Branch {
	return pipeline.Branch{
		When: pipeline.Status(b.When.Status), ExitCode: b.When.ExitCode, Failed: b.When.Failed, TextMatches: b.When.TextMatches, Output: len(b.When.Output) > 0, To: b.To,
		Conflict: b.When.Conflict, FailedAbove: b.When.Items.failedAbove(), Approved: b.When.Approved,
	}
}

// condition is a condition on the end of a step. It holds if all its keys match.
type condition struct {
	Status      string `json:"status,omitempty" enum:"completed,max_iterations,error,consensus,plurality,presented,finished,limit,timeout,budget,undecided,failed,cancelled" doc:"How the step ended: completed, max_iterations or error; for a step of kind session also the status of the session."`
	ExitCode    *int   `json:"exit_code,omitempty" min:"0" max:"255" doc:"The exit code of the commands of a tools step: the first other than 0, else 0."`
	Failed      *bool  `json:"failed,omitempty" doc:"Whether the step, or a tool call of a tools step, failed."`
	TextMatches string `json:"text_matches,omitempty" doc:"A regular expression (RE2) that matches the step's text somewhere."`

	Approved *bool       `json:"approved,omitempty" doc:"Whether the person whom an approval step asked has approved, or chosen an option."`
	Conflict *bool       `json:"conflict,omitempty" doc:"Whether branches or items of the step changed the same file differently."`
	Items    *itemCounts `json:"items,omitempty" doc:"Conditions on the numbers of branches or items: {failed: {above: 0}}."`

	Output map[string]pipeline.Match `json:"output,omitempty" doc:"Conditions on parts of the step's output, by their paths: {verdict: {in: [reject, unsure]}, files.0.lines: {above: 100}}."`
}

// itemCounts are conditions on the branches or items of a step that forks.
type itemCounts struct {
	Failed *above `json:"failed,omitempty" doc:"A condition on the number of those that failed."`
}

// above is a condition on a number.
type above struct {
	Above int `json:"above" default:"0" min:"0" max:"10000" doc:"A number that is less than the count."`
}

func (c *itemCounts) failedAbove() *int {
	if c == nil || c.Failed == nil {
		return nil
	}
	return &c.Failed.Above
}

// history is a pipeline.Policy as written in files.
type history string

// The values of history.
const (
	allHistory  history = "all"
	lastHistory history = "last"
	noHistory   history = "none"
)

// MarshalJSON writes all and none as booleans, so that the hashes of older files do not change.
func (h history) MarshalJSON() ([]byte, error) {
	switch h {
	case allHistory:
		return []byte("true"), nil
	case noHistory:
		return []byte("false"), nil
	}
	return json.Marshal(string(h))
}

// Policy returns the policy of the pipeline.
func (h history) Policy() pipeline.Policy {
	switch h {
	case allHistory:
		return pipeline.AllTexts
	case lastHistory:
		return pipeline.LastTexts
	}
	return pipeline.HideTexts
}

type toolUse struct {
	Tool string         `json:"tool" doc:"The tool's name."`
	Args map[string]any `json:"args,omitempty" doc:"The arguments of the call."`
}

// ReadInputs returns the inputs of a run, which fit the pipeline's schema; nil for a pipeline without inputs.
func (p Pipeline) ReadInputs(given json.RawMessage) (json.RawMessage, error) {
	none := len(given) == 0 || string(given) == "null"
	switch {
	case p.Inputs == nil && none:
		return nil, nil
	case p.Inputs == nil:
		return nil, errors.New("the pipeline takes no inputs; leave them out, or give the pipeline their schema, as inputs")
	case none:
		given = json.RawMessage("{}")
	}
	d, err := p.Inputs.Read(given)
	if err != nil {
		return nil, fmt.Errorf("the inputs do not fit the pipeline's schema: %w", err)
	}
	return d.JSON, nil
}

// Step returns the step with the given name.
func (p Pipeline) Step(name string) (PipelineStep, bool) {
	i := slices.IndexFunc(p.Steps, func(s PipelineStep) bool { return s.Name == name })
	if i < 0 {
		return PipelineStep{}, false
	}
	return p.Steps[i], true
}

// Offline returns the pipeline with the built-in deterministic model behind every agent.
// Steps without a model run as configured, so agents keep the tools that such steps use.
func (p Pipeline) Offline() Pipeline {
	original := p
	p.Agents = Team{Agents: p.Agents}.Offline().Agents
	for _, s := range p.Steps {
		lender, ok := original.stepAgent(s)
		if s.Kind != pipeline.Tools || !ok {
			continue
		}
		i := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.ID == lender.ID })
		p.Agents[i].Tools, p.Agents[i].MCPServers = lender.Tools, lender.MCPServers
	}
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		if s.Kind != pipeline.Tools { // tools and servers could need a network
			p.Steps[i].Tools, p.Steps[i].MCPServers = nil, nil
		}
		if s.Config != nil {
			team := s.Config.Offline()
			p.Steps[i].Config = &team
		}
	}
	return p
}

// PlaysOffline reports whether the built-in deterministic model is behind any agent.
func (p Pipeline) PlaysOffline() bool {
	offline := func(a Agent) bool { return a.Backend.Type == Offline }
	return slices.ContainsFunc(p.Agents, offline) || slices.ContainsFunc(p.Steps, func(s PipelineStep) bool {
		return s.Config != nil && slices.ContainsFunc(s.Config.Agents, offline)
	})
}

// Canonical returns the pipeline as JSON with every default resolved. ParsePipeline reads it back unchanged.
func (p Pipeline) Canonical() ([]byte, error) { return canonicalJSON("pipeline", p) }

// Hash returns the SHA-256 of the canonical form in hex, or "" if Canonical fails.
func (p Pipeline) Hash() string { return hashJSON(p.Canonical()) }

// Player returns the agent that runs a step, or whose tools the step calls. The step's own
// tools and servers replace those of the agent.
func (p Pipeline) Player(s PipelineStep) (Agent, bool) {
	a, ok := p.stepAgent(s)
	if s.Tools != nil {
		a.Tools = *s.Tools
	}
	if s.MCPServers != nil {
		a.MCPServers = *s.MCPServers
	}
	return a, ok
}

func (p Pipeline) stepAgent(s PipelineStep) (Agent, bool) {
	if s.Agent == "" && len(p.Agents) > 0 {
		return p.Agents[0], true
	}
	return Team{Agents: p.Agents}.Agent(s.Agent)
}

// Teams returns the agents and teams that must be available before a run starts: the
// agents, the agents of steps with their own tools or limits, and the teams in the file.
// Each has the limit in dollars that applies to it.
func (p Pipeline) Teams() []Team {
	var teams []Team
	if len(p.Agents) > 0 {
		teams = append(teams, Team{Agents: p.Agents}.Within(0, p.CostLimit(PipelineStep{})))
	}
	for _, s := range p.Steps {
		limit := p.CostLimit(s)
		switch player, ok := p.Player(s); {
		case s.Kind == pipeline.Session && s.Config != nil:
			teams = append(teams, s.Config.Within(0, limit))
		case (s.Kind == pipeline.Agent || s.Kind == pipeline.Tools) && ok && (s.Tools != nil || s.MCPServers != nil || s.Limits.CostUSD != nil):
			teams = append(teams, Team{Agents: []Agent{player}}.Within(0, limit))
		}
	}
	return teams
}

// CostLimit returns the limit in dollars of a step, or else of the run; 0 is no limit.
func (p Pipeline) CostLimit(s PipelineStep) float64 {
	return *cmp.Or(s.Limits.CostUSD, p.Limits.CostUSD, new(float64))
}

// Within returns the team with its time limit, in whole seconds from 1, and its budget
// lowered to the given seconds and dollars; 0 lowers nothing.
func (t Team) Within(seconds, usd float64) Team {
	if seconds > 0 {
		t.Timeouts.OrchestratorTimeoutSeconds = min(t.Timeouts.OrchestratorTimeoutSeconds, max(1, int(seconds)))
	}
	if budget := &t.Orchestrator.Budget; usd > 0 && (budget.MaxCostUSD == nil || *budget.MaxCostUSD > usd) {
		budget.MaxCostUSD = &usd
	}
	return t
}

func (g *graphCheck) checkStepLimits(key string, s PipelineStep) {
	l := s.Limits
	if s.Kind != pipeline.Agent && l.ModelCalls != nil {
		g.Report(key+".limits.model_calls", "has no meaning for a step of kind %s; remove it", s.Kind)
	}
	if s.Kind == pipeline.Approval && (l.Seconds != nil || l.CostUSD != nil) {
		g.Report(key+".limits", "has no meaning for a step of kind %s, which waits for as long as it takes; remove it", s.Kind)
	}
	if s.Forks() && (l.Seconds != nil || l.CostUSD != nil) {
		g.Report(key+".limits", "has no meaning for a step of kind %s; limit the steps of its branches", s.Kind)
	}
	if s.Kind == pipeline.Tools && l.CostUSD != nil {
		g.Report(key+".limits.cost_usd", "a step of kind tools costs nothing; remove it")
	}
	g.checkCost(key+".limits.cost_usd", l.CostUSD)
	g.checkVisits(key+".max_visits", s)
}

func (g *graphCheck) checkCost(key string, usd *float64) {
	if usd != nil && *usd == 0 {
		g.Report(key, "a limit of 0 dollars allows no model call; give an amount above 0, or null for no limit")
	}
}

// checkVisits checks the step that replaces a step with max_visits once its visits are used up.
func (g *graphCheck) checkVisits(key string, s PipelineStep) {
	if s.MaxVisits == nil || s.MaxVisits.Then == "" {
		return
	}
	if !slices.Contains(g.names, s.MaxVisits.Then) {
		g.Name(key+".then", s.MaxVisits.Then, "a step", g.names)
		return
	}
	at := s
	for range g.pipeline.Steps {
		if at.MaxVisits == nil || at.MaxVisits.Then == "" {
			return
		}
		at, _ = g.pipeline.Step(at.MaxVisits.Then)
		if at.Name == s.Name {
			g.Report(key+".then", "leads back to %s, which is not entered again; name a step after the loop", s.Name)
			return
		}
	}
}

func (g *graphCheck) checkStepTools(key string, s PipelineStep) {
	if s.MCPServers == nil {
		return
	}
	g.checkServers(key+".mcp_servers", *s.MCPServers)
	if g.reach.cluster {
		g.checkServerReach(key+".mcp_servers", *s.MCPServers)
	}
}

// failOnToolError is a value of on_tool_error.
const failOnToolError = "fail"

// teamFailures are the statuses of a team whose step has failed.
var teamFailures = []string{"undecided", "failed", "cancelled"}

func (c condition) namesFailure() bool {
	return c.Status == string(pipeline.Failed) || slices.Contains(teamFailures, c.Status) || c.Failed != nil && *c.Failed
}

func (s PipelineStep) endStatuses() []string {
	statuses := []string{string(pipeline.Completed), string(pipeline.Failed)}
	switch s.Kind {
	case pipeline.Agent:
		statuses = append(statuses, string(pipeline.MaxIterations))
	case pipeline.Session:
		for _, status := range []coordination.Status{
			coordination.Consensus, coordination.Plurality, coordination.Presented, coordination.Finished,
			coordination.Limit, coordination.Timeout, coordination.OverSpent,
		} {
			statuses = append(statuses, string(status))
		}
		statuses = append(statuses, teamFailures...)
	case pipeline.Tools, pipeline.Parallel, pipeline.ForEach, pipeline.Nested, pipeline.Approval:
	}
	return statuses
}

func (g *graphCheck) checkCondition(key string, s PipelineStep, when condition) {
	if when.Status != "" && !slices.Contains(s.endStatuses(), when.Status) {
		g.Report(key+".status", "a step of kind %s does not end with the status %s; %s", s.Kind, when.Status, suggestChoice(when.Status, s.endStatuses()))
	}
	if when.Approved != nil && s.Kind != pipeline.Approval {
		g.Report(key+".approved", "only steps of kind approval ask for one; look at status, failed, text_matches or output")
	}
	if (when.Conflict != nil || when.Items != nil) && !s.Forks() {
		g.Report(key, "only steps of kind parallel and for_each have conflicts and items; look at status, failed, text_matches or output")
	}
	commands := slices.ContainsFunc(s.Calls, func(use toolUse) bool { return use.Tool == llm.RunCommand })
	if when.ExitCode != nil && !commands {
		g.Report(key+".exit_code", "only tools steps that call run_command have an exit code; look at status, failed or text_matches")
	}
	if _, err := regexp.Compile(when.TextMatches); err != nil {
		g.Report(key+".text_matches", "not a regular expression (RE2): %v", err)
	}
	for path, match := range when.Output {
		at := joinKey(key+".output", path)
		switch _, err := regexp.Compile(match.Matches); {
		case err == nil && s.canLeave(strings.Split(path, ".")):
		case s.Kind == pipeline.Approval:
			g.Report(at, "the output of an approval has approved, option, text and by, and no %s", quoteSafely(path))
		case s.Output == nil:
			g.Report(key+".output", "the step has no output; give it a schema, as output")
		case !s.Output.CanHave(strings.Split(path, ".")):
			g.Report(at, "the schema of the step's output has no %s", quoteSafely(path))
		case err != nil:
			g.Report(at+".matches", "not a regular expression (RE2): %v", err)
		}
	}
}

// warnOfUnreachable warns of the steps of a valid pipeline to which nothing leads from the start.
func (g *graphCheck) warnOfUnreachable() Problems {
	p := g.pipeline
	reached := map[string]bool{p.Start: true, p.Finally: true}
	for queue := []string{p.Start, p.Finally}; len(queue) > 0; queue = queue[1:] {
		for _, e := range p.listEdges() {
			if e.from == queue[0] && !reached[e.to] {
				reached[e.to] = true
				queue = append(queue, e.to)
			}
		}
	}
	for i, s := range p.Steps {
		if key := itemKey("steps", i); !reached[s.Name] {
			g.reportAt(g.nodeOf(key), key, "no run reaches the step %s: no next or destinations name it", quoteSafely(s.Name))
		}
	}
	return g.problems
}
