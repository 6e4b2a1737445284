package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"conclave/engine/pipeline"
)

// maxSteps is the largest number of steps of a graph.
const maxSteps = 200

// fileTools and shellTool are the built-in tools that a tools step can use.
var fileTools = []string{"read_file", "write_file", "edit_file", "list_files", "search_files", "copy_path"}

const shellTool = "run_command"

// checkPipeline reports violations of a graph beyond a single key.
func (d *Decoder) checkPipeline(p Pipeline) {
	d.checkAgents("agents", p.Agents)
	names := d.checkStepNames(p.Steps)
	switch {
	case len(p.Steps) == 0:
		d.Report("steps", "no steps; a pipeline has at least one, with a name and a kind")
		return
	case p.Start == "":
		d.Report("start", "missing; name the step that a run begins with, such as %s", p.Steps[0].Name)
	case !slices.Contains(names, p.Start):
		d.Name("start", p.Start, "a step", names)
	}
	for i, s := range p.Steps {
		key := nth("steps", i)
		d.checkMeaningless(key, s)
		d.checkDestinations(key, s, names)
		d.checkNext(key, s, names)
		switch s.Kind {
		case pipeline.Agent:
			d.checkPlayer(key, s, p)
		case pipeline.Tools:
			d.checkPlayer(key, s, p)
			d.checkCalls(key, s, p)
		case pipeline.Session:
			if s.Config != nil && s.Team != "" {
				d.Report(key+".team", "the step has both a team and a config: give one")
			}
		}
	}
}

// checkStepNames returns the valid names.
func (d *Decoder) checkStepNames(steps []PipelineStep) []string {
	if len(steps) > maxSteps {
		d.Report(nth("steps", maxSteps), "%d steps are too many; a pipeline has at most %d", len(steps), maxSteps)
	}
	var names []string
	first := map[string]int{}
	for i, s := range steps {
		key := nth("steps", i) + ".name"
		earlier, taken := first[s.Name]
		switch {
		case s.Name == "":
			d.Report(key, "missing; every step has a name of its own")
		case !agentID.MatchString(s.Name):
			d.Report(key, "%s is not the name of a step: %s", quote(s.Name), idForm)
		case taken:
			d.Report(key, "%s is the name of the step on line %d already; every step has its own", quote(s.Name), d.at(nth("steps", earlier)+".name").line)
		default:
			first[s.Name] = i
			names = append(names, s.Name)
		}
	}
	return names
}

// meaningless lists the keys without a meaning for each kind of step. Their
// defaults are accepted, since the canonical form contains them.
var meaningless = map[pipeline.Kind][]string{
	pipeline.Agent:   {"calls", "config", "team"},
	pipeline.Tools:   {"config", "team", "prompt", "history", "max_iterations"},
	pipeline.Session: {"calls", "agent", "max_iterations"},
}

func (d *Decoder) checkMeaningless(key string, s PipelineStep) {
	v := reflect.ValueOf(s)
	for _, r := range rules(v.Type()) {
		if slices.Contains(meaningless[s.Kind], r.key) && !isDefault(v.Field(r.index), r) {
			d.Report(key+"."+r.key, "has no meaning for a step of kind %s; remove it", s.Kind)
		}
	}
}

func (d *Decoder) checkDestinations(key string, s PipelineStep, names []string) {
	if s.Kind != pipeline.Agent && len(s.Destinations) > 0 {
		d.Report(key+".destinations", "only agents jump and call; remove it, or use next")
		return
	}
	for i, to := range s.Destinations {
		at := nth(key+".destinations", i)
		switch {
		case !slices.Contains(names, to):
			d.Name(at, to, "a step", names)
		case slices.Contains(s.Destinations[:i], to):
			d.Report(at, "%s is there twice; remove one", quote(to))
		}
	}
}

func (d *Decoder) checkNext(key string, s PipelineStep, names []string) {
	for i, b := range s.Next {
		at := nth(key+".next", i)
		switch {
		case b.To == "":
			d.Report(at+".to", "missing; name the step that comes next")
		case !slices.Contains(names, b.To):
			d.Name(at+".to", b.To, "a step", names)
		}
		unread := d.invalid[at+".when"] || d.invalid[at+".when.status"]
		if b.When.Status == "" && !unread && i < len(s.Next)-1 {
			d.Report(nth(key+".next", i+1), "never reached: the rule before it matches every status; put that one last")
		}
	}
}

// checkPlayer checks that the step has an agent.
func (d *Decoder) checkPlayer(key string, s PipelineStep, p Pipeline) {
	var ids []string
	for _, a := range p.Agents {
		ids = append(ids, a.ID)
	}
	switch {
	case len(ids) == 0 && !d.invalid["agents"]:
		d.Report(key, "the step needs an agent, and the pipeline has none; list one under agents")
	case s.Agent != "" && !slices.Contains(ids, s.Agent):
		d.Name(key+".agent", s.Agent, "an agent", ids)
	}
}

// checkCalls checks the calls of a tools step against the tools of its agent.
func (d *Decoder) checkCalls(key string, s PipelineStep, p Pipeline) {
	if len(s.Calls) == 0 {
		d.Report(key+".calls", "missing; list the tool calls of the step, such as {tool: run_command, args: {command: make lint}}")
	}
	if player, ok := p.Player(s); ok {
		for i, use := range s.Calls {
			d.checkTool(nth(key+".calls", i)+".tool", use.Tool, player)
		}
	}
}

// checkTool checks that an agent has a tool. The tools of an MCP server are not
// known before it runs.
func (d *Decoder) checkTool(key, tool string, a Agent) {
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
		d.Report(key, "missing; name the tool to call")
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server }):
	case mcp:
		d.Report(key, "agent %s has no MCP server %s; name it in its mcp_servers", a.ID, quote(server))
	case tool == shellTool && !a.Tools.Shell:
		d.Report(key, "agent %s has no shell; set its tools: {shell: true}", a.ID)
	case !slices.Contains(names, tool):
		d.Name(key, tool, fmt.Sprintf("a tool of agent %s", a.ID), names)
	}
}

// unused reports the steps of a valid pipeline that no run reaches, and the rules that
// never apply.
func (d *Decoder) unused(p Pipeline) Problems {
	reached := p.reachable()
	for i, s := range p.Steps {
		key := nth("steps", i)
		if !reached[s.Name] {
			d.report(d.at(key), key, "no run reaches the step %s: no next or destinations name it", quote(s.Name))
		}
		for j, fits := range s.fitting() {
			if fits {
				continue
			}
			reason := "the rules before it match every status"
			if status := s.Next[j].When.Status; status != "" && !slices.Contains(s.statuses(), status) {
				reason = fmt.Sprintf("a step of kind %s does not end with the status %s", s.Kind, status)
			}
			rule := nth(key+".next", j)
			d.report(d.at(rule), rule, "never fits: %s", reason)
		}
	}
	return d.problems
}

// statuses lists the ways in which a step ends before its next rules are asked.
func (s PipelineStep) statuses() []string {
	if s.Kind == pipeline.Agent || s.Kind == "" {
		return []string{"completed", "max_iterations"}
	}
	return []string{"completed"}
}

// fitting reports for each next rule whether some status matches it first.
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

// reachable returns the names of the steps that a run can reach from the start.
func (p Pipeline) reachable() map[string]bool {
	reached := map[string]bool{p.Start: true}
	for queue := []string{p.Start}; len(queue) > 0; queue = queue[1:] {
		s, _ := p.Step(queue[0])
		targets := slices.Clone(s.Destinations)
		for i, fits := range s.fitting() {
			if fits {
				targets = append(targets, s.Next[i].To)
			}
		}
		for _, to := range targets {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	return reached
}

// Mermaid draws the graph: solid arrows are next rules, dotted ones the
// destinations of agents.
func (p Pipeline) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, s := range p.Steps {
		opened, closed := "[", "]"
		switch s.Kind {
		case pipeline.Tools:
			opened, closed = "[[", "]]"
		case pipeline.Session:
			opened, closed = "{{", "}}"
		}
		label := s.Name + "<br/>" + string(s.Kind)
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

// vertex returns the identifier of a step in Mermaid, where words such as end
// are reserved.
func vertex(step string) string {
	return "s_" + strings.NewReplacer("-", "_2d", "_", "_5f").Replace(step)
}
