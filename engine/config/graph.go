package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"conclave/engine/builtin"
	"conclave/engine/pipeline"
)

// maxSteps is the largest number of steps of a graph.
const maxSteps = 200

// checkPipeline reports violations of a graph beyond a single key.
func (d *Decoder) checkPipeline(p Pipeline) {
	d.checkAgents("agents", p.Agents)
	d.checkCost("limits.cost_usd", p.Limits.CostUSD)
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
		if d.invalid[key+".kind"] {
			continue // later checks would see the default in place of the invalid kind
		}
		d.checkMeaningless(key, s)
		d.checkDestinations(key, s, names)
		d.checkNext(key, s, names)
		d.checkStepLimits(key, s, p, names)
		d.checkStepTools(key, s)
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
	pipeline.Agent:   {"calls", "config", "team", "on_tool_error"},
	pipeline.Tools:   {"config", "team", "prompt", "history", "max_iterations"},
	pipeline.Session: {"calls", "agent", "max_iterations", "on_tool_error", "tools", "mcp_servers"},
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
		d.checkCondition(at+".when", s, b.When)
		unread := d.invalid[at+".when"] || d.invalid[at+".when.status"]
		if b.When == (condition{}) && !unread && i < len(s.Next)-1 && !s.Next[i+1].When.namesFailure() {
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
			if err := builtin.Check(use.Tool, use.Args); err != nil {
				d.checkedArgs(nth(key+".calls", i), use, err)
			}
		}
	}
}

// checkedArgs reports arguments that a built-in tool would refuse.
func (d *Decoder) checkedArgs(key string, use toolUse, err error) {
	at := key + ".args"
	if len(use.Args) == 0 {
		at = key
	}
	d.Report(at, "%s", err.Error())
}

// checkTool checks that an agent has a tool. The tools of an MCP server are not
// known before it runs.
func (d *Decoder) checkTool(key, tool string, a Agent) {
	names := builtin.Names(a.Tools.Files, a.Tools.Shell)
	server, mcp := strings.CutPrefix(tool, "mcp__")
	server, _, _ = strings.Cut(server, "__")
	switch {
	case tool == "":
		d.Report(key, "missing; name the tool to call")
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server && s.keepsBack(tool) }):
		d.Report(key, "the filters of MCP server %s keep %s from agent %s; change its allowed_tools or exclude_tools", server, quote(tool), a.ID)
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server }):
	case mcp:
		d.Report(key, "agent %s has no MCP server %s; name it in its mcp_servers", a.ID, quote(server))
	case tool == builtin.RunCommand && !a.Tools.Shell:
		d.Report(key, "agent %s has no shell; set its tools: {shell: true}", a.ID)
	case !slices.Contains(names, tool):
		d.Name(key, tool, fmt.Sprintf("a tool of agent %s", a.ID), names)
	}
}
