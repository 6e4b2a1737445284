package config

import (
	"fmt"
	"slices"
	"strings"
)

// defaultIterations is the default of max_iterations, as the tag of PipelineStep has it.
const defaultIterations = 50

// maxSteps is the largest number of steps of a graph.
const maxSteps = 200

// fileTools and shellTool are the built-in tools that a tools step can use.
var fileTools = []string{"read_file", "write_file", "edit_file", "list_files", "search_files", "copy_path"}

const shellTool = "run_command"

// checkPipeline finds what is wrong with a graph beyond a single key.
func (d *decoder) checkPipeline(p Pipeline) {
	if len(p.Agents) > 0 {
		d.checkAgents(p.Agents)
	}
	for i, a := range p.Agents {
		key := nth("agents", i)
		d.checkBackend(key+".backend", a.Backend)
		d.checkServers(key+".mcp_servers", a.MCPServers)
		d.checkReach(key, a)
	}
	names := d.checkStepNames(p.Steps)
	c := Checker{d}
	switch {
	case len(p.Steps) == 0:
		c.Report("steps", "no steps; a pipeline has at least one, with a name and a kind")
		return
	case p.Start == "":
		c.Report("start", "missing; name the step that a run begins with, such as %s", p.Steps[0].Name)
	case !slices.Contains(names, p.Start):
		c.Name("start", p.Start, "a step", names)
	}
	for i, s := range p.Steps {
		key := nth("steps", i)
		d.checkLeads(key, s, names)
		switch s.Kind {
		case AgentStep:
			d.checkAgentStep(key, s, p)
		case ToolsStep:
			d.checkToolsStep(key, s, p)
		case SessionStep:
			d.checkSessionStep(key, s)
		}
	}
}

func (d *decoder) checkStepNames(steps []PipelineStep) []string {
	if len(steps) > maxSteps {
		d.reportKey(nth("steps", maxSteps), "%d steps are too many; a pipeline has at most %d", len(steps), maxSteps)
	}
	var names []string
	first := map[string]int{}
	for i, s := range steps {
		key := nth("steps", i) + ".name"
		earlier, taken := first[s.Name]
		switch {
		case d.reported(key), d.reported(nth("steps", i)):
		case s.Name == "":
			d.reportKey(key, "missing; every step has a name of its own")
		case !agentID.MatchString(s.Name):
			d.reportKey(key, "%s is not the name of a step: a lower-case letter, then up to 31 lower-case letters, digits, _ or -", quote(s.Name))
		case taken:
			d.reportKey(key, "%s is the name of the step on line %d already; every step has its own", quote(s.Name), d.at(nth("steps", earlier)+".name").line)
		default:
			first[s.Name] = i
			names = append(names, s.Name)
		}
	}
	return names
}

// checkLeads checks where a step leads.
func (d *decoder) checkLeads(key string, s PipelineStep, names []string) {
	c := Checker{d}
	for i, to := range s.Destinations {
		at := nth(key+".destinations", i)
		switch {
		case s.Kind != AgentStep:
			c.Report(key+".destinations", "only agents jump and call; remove it, or lead on with next")
		case !slices.Contains(names, to):
			c.Name(at, to, "a step", names)
		case slices.Contains(s.Destinations[:i], to):
			c.Report(at, "%s is there twice; remove one", quote(to))
		}
	}
	for i, b := range s.Next {
		at := nth(key+".next", i)
		switch {
		case b.To == "":
			c.Report(at+".to", "missing; name the step that comes next")
		case !slices.Contains(names, b.To):
			c.Name(at+".to", b.To, "a step", names)
		}
		unread := d.reported(at+".when") || d.reported(at+".when.status")
		if b.When.Status == "" && !unread && i < len(s.Next)-1 {
			c.Report(nth(key+".next", i+1), "never asked: the rule before it fits however the step ends; put that one last")
		}
	}
}

// refuseIterations refuses a bound of model calls where no model of the pipeline's
// is called. The default of the canonical form stands for none.
func (d *decoder) refuseIterations(key string, s PipelineStep) {
	if s.MaxIterations != defaultIterations {
		d.reportKey(key+".max_iterations", "has no meaning for a step of kind %s; remove it", s.Kind)
	}
}

// refuseKeys refuses keys that have no meaning for the kind of the step.
func (d *decoder) refuseKeys(key string, s PipelineStep, given map[string]bool) {
	for _, name := range []string{"agent", "calls", "config", "team", "prompt", "history"} {
		if given[name] {
			d.reportKey(key+"."+name, "has no meaning for a step of kind %s; remove it", s.Kind)
		}
	}
}

func (d *decoder) checkAgentStep(key string, s PipelineStep, p Pipeline) {
	d.refuseKeys(key, s, map[string]bool{"calls": len(s.Calls) > 0, "config": s.Config != nil, "team": s.Team != ""})
	d.checkPlayer(key, s, p)
}

// checkPlayer checks that there is an agent for the step.
func (d *decoder) checkPlayer(key string, s PipelineStep, p Pipeline) {
	c := Checker{d}
	var ids []string
	for _, a := range p.Agents {
		ids = append(ids, a.ID)
	}
	switch {
	case len(ids) == 0 && !d.reported("agents"):
		c.Report(key, "the step needs an agent, and the pipeline has none; list one under agents")
	case s.Agent != "" && !slices.Contains(ids, s.Agent):
		c.Name(key+".agent", s.Agent, "an agent", ids)
	}
}

func (d *decoder) checkToolsStep(key string, s PipelineStep, p Pipeline) {
	d.refuseKeys(key, s, map[string]bool{"config": s.Config != nil, "team": s.Team != "", "prompt": s.Prompt != "", "history": s.History})
	d.refuseIterations(key, s)
	d.checkPlayer(key, s, p)
	c := Checker{d}
	if len(s.Calls) == 0 {
		c.Report(key+".calls", "missing; list the tool calls of the step, such as {tool: run_command, args: {command: make lint}}")
	}
	player, ok := p.Player(s)
	if !ok {
		return
	}
	for i, use := range s.Calls {
		d.checkTool(nth(key+".calls", i)+".tool", use.Tool, player)
	}
}

// checkTool checks that an agent has the tool. Which tools an MCP server has is
// known when it runs.
func (d *decoder) checkTool(key, tool string, a Agent) {
	c := Checker{d}
	var names []string
	if a.Tools.Files {
		names = append(names, fileTools...)
	}
	if a.Tools.Shell {
		names = append(names, shellTool)
	}
	server, mcp := strings.CutPrefix(tool, "mcp__")
	server, _, _ = strings.Cut(server, "__")
	switch {
	case tool == "":
		c.Report(key, "missing; name the tool to call")
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server }):
	case mcp:
		c.Report(key, "agent %s has no MCP server %s; name it in its mcp_servers", a.ID, quote(server))
	case tool == shellTool && !a.Tools.Shell:
		c.Report(key, "agent %s has no shell; set its tools: {shell: true}", a.ID)
	case !slices.Contains(names, tool):
		c.Name(key, tool, fmt.Sprintf("a tool of agent %s", a.ID), names)
	}
}

func (d *decoder) checkSessionStep(key string, s PipelineStep) {
	d.refuseKeys(key, s, map[string]bool{"calls": len(s.Calls) > 0, "agent": s.Agent != ""})
	d.refuseIterations(key, s)
	c := Checker{d}
	if s.Config != nil && s.Team != "" {
		c.Report(key+".team", "the step has both a team and a config: give one")
	}
}

// Mermaid draws the graph: solid arrows are static rules, dotted ones what agents
// may jump to and call.
func (p Pipeline) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, s := range p.Steps {
		opened, closed := "[", "]"
		switch s.Kind {
		case ToolsStep:
			opened, closed = "[[", "]]"
		case SessionStep:
			opened, closed = "{{", "}}"
		}
		label := s.Name + "<br/>" + s.Kind
		if s.Agent != "" {
			label += " · " + s.Agent
		}
		fmt.Fprintf(&b, "    %s%s%q%s\n", vertex(s.Name), opened, label, closed)
	}
	fmt.Fprintf(&b, "    start((start)) --> %s\n", vertex(p.Start))
	for _, s := range p.Steps {
		for _, n := range s.Next {
			label := ""
			if n.When.Status != "" {
				label = "|" + n.When.Status + "|"
			}
			fmt.Fprintf(&b, "    %s -->%s %s\n", vertex(s.Name), label, vertex(n.To))
		}
		for _, to := range s.Destinations {
			fmt.Fprintf(&b, "    %s -.-> %s\n", vertex(s.Name), vertex(to))
		}
	}
	return b.String()
}

// vertex is the name of a step as one of a vertex: words such as end mean
// something to Mermaid.
func vertex(step string) string {
	return "s_" + strings.NewReplacer("-", "_2d", "_", "_5f").Replace(step)
}

// PipelineWarnings tells what in a pipeline's text is never used, at its place:
// steps that no run comes to, and rules that never fit. A run is none the worse for
// it, but somebody may have meant something else. Of a text with problems it says
// nothing.
func PipelineWarnings(name string, data []byte, reach Reach) Problems {
	p, err := ParsePipeline(name, data, reach)
	root, f := parseDocument(data)
	if err != nil || f != nil {
		return nil
	}
	var found Problems
	warn := func(at position, key, format string, args ...any) {
		found = append(found, Problem{File: name, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	unreachable := p.Unreachable()
	for i, step := range root.get("steps").items {
		s, key := p.Steps[i], nth("steps", i)
		if slices.Contains(unreachable, s.Name) {
			warn(step.position, key, "no run comes to the step %s: nothing leads to it by next or destinations", quote(s.Name))
		}
		for j, fits := range s.fitting() {
			if !fits {
				warn(step.get("next").items[j].position, nth(key+".next", j), "never fits: %s", s.whyNever(s.Next[j]))
			}
		}
	}
	return found
}

// statuses are those with which the step can end and its static rule is asked. Only
// an agent's model calls can be used up.
func (s PipelineStep) statuses() []string {
	if s.Kind == AgentStep || s.Kind == "" {
		return []string{"completed", "max_iterations"}
	}
	return []string{"completed"}
}

// fitting says of each branch of the static rule whether it is ever taken: whether
// there is a status that it fits and none before it does.
func (s PipelineStep) fitting() []bool {
	left := s.statuses()
	var fitting []bool
	for _, b := range s.Next {
		before := len(left)
		left = slices.DeleteFunc(left, func(status string) bool { return b.When.Status == "" || b.When.Status == status })
		fitting = append(fitting, len(left) < before)
	}
	return fitting
}

// whyNever says why a branch is never taken.
func (s PipelineStep) whyNever(b Branch) string {
	if b.When.Status != "" && !slices.Contains(s.statuses(), b.When.Status) {
		return fmt.Sprintf("a step of kind %s does not end with the status %s", s.Kind, b.When.Status)
	}
	return "the rules before it fit however the step ends"
}

// Unreachable are the steps that no run comes to, by name.
func (p Pipeline) Unreachable() []string {
	reached := map[string]bool{p.Start: true}
	for waiting := []string{p.Start}; len(waiting) > 0; {
		s, _ := p.Step(waiting[0])
		waiting = waiting[1:]
		for _, to := range s.leads() {
			if !reached[to] {
				reached[to] = true
				waiting = append(waiting, to)
			}
		}
	}
	var left []string
	for _, s := range p.Steps {
		if !reached[s.Name] {
			left = append(left, s.Name)
		}
	}
	return left
}

// leads are the steps that can come after s, by whatever way.
func (s PipelineStep) leads() []string {
	all := slices.Clone(s.Destinations)
	for i, fits := range s.fitting() {
		if fits {
			all = append(all, s.Next[i].To)
		}
	}
	return all
}
