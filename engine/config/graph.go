package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/text"
)

// maxSteps is the largest number of steps of a graph.
const maxSteps = 200

// graphCheck checks a decoded pipeline beyond its single keys.
type graphCheck struct {
	*Decoder

	pipeline Pipeline
	names    []string // valid names of its steps, each once
	lines    int      // branches checked so far
}

func (g *graphCheck) checkSteps() {
	p := g.pipeline
	g.checkAgents("agents", p.Agents)
	g.checkCost("limits.cost_usd", p.Limits.CostUSD)
	g.checkStepNames()
	switch {
	case len(p.Steps) == 0:
		g.Report("steps", "no steps; a pipeline has at least one, with a name and a kind")
		return
	case p.Start == "":
		g.Report("start", "missing; name the step that a run begins with, such as %s", p.Steps[0].Name)
	case !slices.Contains(g.names, p.Start):
		g.Name("start", p.Start, "a step", g.names)
	}
	if p.Result != "" && !slices.Contains(g.names, p.Result) {
		g.Name("result", p.Result, "a step", g.names)
	}
	if p.Finally != "" && !slices.Contains(g.names, p.Finally) {
		g.Name("finally", p.Finally, "a step", g.names)
	}
	for i, s := range p.Steps {
		key := itemKey("steps", i)
		if g.invalid[key+".kind"] {
			continue // later checks would see the default in place of the invalid kind
		}
		g.checkMeaningless(key, s)
		g.checkDestinations(key, s)
		g.checkNext(key, s)
		g.checkStepLimits(key, s)
		g.checkStepTools(key, s)
		g.checkTemplates(key, s)
		switch s.Kind {
		case pipeline.Agent:
			g.checkPlayer(key, s)
		case pipeline.Tools:
			g.checkPlayer(key, s)
			g.checkCalls(key, s)
		case pipeline.Session:
			if s.Config != nil && s.Team != "" {
				g.Report(key+".team", "the step has both a team and a config: give one")
			}
		case pipeline.Parallel:
			g.checkParallel(key, s)
		case pipeline.ForEach:
			g.checkForEach(key, s)
		case pipeline.Approval:
			g.checkApproval(key, s)
		case pipeline.Nested:
			g.checkNested(key, s)
		}
	}
	g.checkLines()
}

func (g *graphCheck) checkStepNames() {
	steps := g.pipeline.Steps
	if len(steps) > maxSteps {
		g.Report(itemKey("steps", maxSteps), "%d steps are too many; a pipeline has at most %d", len(steps), maxSteps)
	}
	first := map[string]int{}
	for i, s := range steps {
		key := itemKey("steps", i) + ".name"
		earlier, taken := first[s.Name]
		switch {
		case s.Name == "":
			g.Report(key, "missing; every step has a name of its own")
		case !agentID.MatchString(s.Name):
			g.Report(key, "%s is not the name of a step: %s", quoteSafely(s.Name), idForm)
		case taken:
			g.Report(key, "%s is the name of the step on line %d already; every step has its own", quoteSafely(s.Name), g.nodeOf(itemKey("steps", earlier)+".name").Line)
		default:
			first[s.Name] = i
			g.names = append(g.names, s.Name)
		}
	}
}

// meaningless lists the keys without a meaning for each kind of step. Their
// defaults are accepted, since the canonical form contains them.
var meaningless = map[pipeline.Kind][]string{
	pipeline.Agent:    slices.Concat([]string{"calls", "config", "team", "on_tool_error"}, forkKeys, askKeys, nestKeys),
	pipeline.Tools:    slices.Concat([]string{"config", "team", "prompt", "history", "max_iterations"}, forkKeys, askKeys, nestKeys),
	pipeline.Session:  slices.Concat([]string{"calls", "agent", "max_iterations", "on_tool_error", "tools", "mcp_servers"}, forkKeys, askKeys, nestKeys),
	pipeline.Parallel: slices.Concat([]string{"step"}, itemKeys, workKeys, askKeys, nestKeys),
	pipeline.ForEach:  slices.Concat([]string{"branches", "join", "on_branch_failure"}, workKeys, askKeys, nestKeys),
	pipeline.Approval: slices.Concat(forkKeys, workKeys, nestKeys),
	pipeline.Nested:   slices.Concat([]string{"branches", "join", "on_branch_failure", "on_conflict"}, itemKeys, workKeys, askKeys),
}

// itemKeys and forkKeys belong to steps that fork, workKeys to steps that do something themselves, askKeys to steps that
// ask, and nestKeys to those that are another pipeline.
var (
	itemKeys = []string{"items", "at_once", "max_items", "on_item_failure"}
	forkKeys = append([]string{"branches", "join", "on_branch_failure", "on_conflict", "step"}, itemKeys...)
	askKeys  = []string{"question", "options"}
	nestKeys = []string{"file", "inputs", "result"}
	workKeys = []string{"agent", "prompt", "destinations", "max_iterations", "output", "retry", "history", "tools", "mcp_servers", "calls", "on_tool_error", "team", "config"}
)

func (g *graphCheck) checkMeaningless(key string, s PipelineStep) {
	v := reflect.ValueOf(s)
	for _, r := range rulesOf(v.Type()) {
		if slices.Contains(meaningless[s.Kind], r.key) && !isDefault(v.Field(r.index), r) {
			g.Report(key+"."+r.key, "has no meaning for a step of kind %s; remove it", s.Kind)
		}
	}
}

func (g *graphCheck) checkDestinations(key string, s PipelineStep) {
	if s.Kind != pipeline.Agent && len(s.Destinations) > 0 {
		g.Report(key+".destinations", "only agents jump and call; remove it, or use next")
		return
	}
	for i, to := range s.Destinations {
		at := itemKey(key+".destinations", i)
		switch {
		case !slices.Contains(g.names, to):
			g.Name(at, to, "a step", g.names)
		case slices.Contains(s.Destinations[:i], to):
			g.Report(at, "%s is there twice; remove one", quoteSafely(to))
		}
	}
}

func (g *graphCheck) checkNext(key string, s PipelineStep) {
	for i, b := range s.Next {
		at := itemKey(key+".next", i)
		switch {
		case b.To == "":
			g.Report(at+".to", "missing; name the step that comes next")
		case !slices.Contains(g.names, b.To):
			g.Name(at+".to", b.To, "a step", g.names)
		}
		g.checkCondition(at+".when", s, b.When)
		unread := g.invalid[at+".when"] || g.invalid[at+".when.status"]
		if reflect.ValueOf(b.When).IsZero() && !unread && i < len(s.Next)-1 && !s.Next[i+1].When.namesFailure() {
			g.Report(itemKey(key+".next", i+1), "never reached: the rule before it matches every status; put that one last")
		}
	}
}

func (g *graphCheck) checkPlayer(key string, s PipelineStep) {
	ids := text.Each(g.pipeline.Agents, func(a Agent) string { return a.ID })
	switch {
	case len(ids) == 0 && !g.invalid["agents"]:
		g.Report(key, "the step needs an agent, and the pipeline has none; list one under agents")
	case s.Agent != "" && !slices.Contains(ids, s.Agent):
		g.Name(key+".agent", s.Agent, "an agent", ids)
	}
}

// maxOptions bounds the options of an approval step.
const maxOptions = 10

func (g *graphCheck) checkApproval(key string, s PipelineStep) {
	if strings.TrimSpace(s.Question) == "" {
		g.Report(key+".question", "missing; write what the person is asked, such as: Apply the change?")
	}
	if n := len(s.Options); n == 1 || n > maxOptions {
		g.Report(key+".options", "%d options; give 2 to %d, or none for a plain approval", n, maxOptions)
	}
	for i, option := range s.Options {
		if strings.TrimSpace(option) == "" || slices.Contains(s.Options[:i], option) {
			g.Report(itemKey(key+".options", i), "%s is empty or there twice; remove it", quoteSafely(option))
		}
	}
}

func (g *graphCheck) checkCalls(key string, s PipelineStep) {
	if len(s.Calls) == 0 {
		g.Report(key+".calls", "missing; list the tool calls of the step, such as {tool: run_command, args: {command: make lint}}")
	}
	if player, ok := g.pipeline.Player(s); ok {
		for i, use := range s.Calls {
			g.checkTool(itemKey(key+".calls", i)+".tool", use.Tool, player)
			if err := llm.CheckArguments(use.Tool, use.Args); err != nil {
				g.reportArguments(itemKey(key+".calls", i), use, err)
			}
		}
	}
}

func (g *graphCheck) reportArguments(key string, use toolUse, err error) {
	at := key + ".args"
	if len(use.Args) == 0 {
		at = key
	}
	g.Report(at, "%s", err.Error())
}

func (g *graphCheck) checkTool(key, tool string, a Agent) {
	names := llm.BuiltinNames(a.Tools.Files, a.Tools.Shell != ShellOff)
	server, mcp := strings.CutPrefix(tool, "mcp__")
	server, _, _ = strings.Cut(server, "__")
	switch {
	case tool == "":
		g.Report(key, "missing; name the tool to call")
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server && s.keepsBack(tool) }):
		g.Report(key, "the filters of MCP server %s keep %s from agent %s; change its allowed_tools or exclude_tools", server, quoteSafely(tool), a.ID)
	case mcp && slices.ContainsFunc(a.MCPServers, func(s MCPServer) bool { return s.Name == server }):
	case mcp:
		g.Report(key, "agent %s has no MCP server %s; name it in its mcp_servers", a.ID, quoteSafely(server))
	case tool == llm.RunCommand && a.Tools.Shell == ShellOff:
		g.Report(key, "agent %s has no shell; set its tools: {shell: true}", a.ID)
	case !slices.Contains(names, tool):
		g.Name(key, tool, fmt.Sprintf("a tool of agent %s", a.ID), names)
	}
}

// checkTemplates checks that the fields in the texts of a step name values that can exist.
func (g *graphCheck) checkTemplates(key string, s PipelineStep) {
	if s.End != "" && !agentID.MatchString(s.End) {
		g.Report(key+".end", "%s is no end: %s", quoteSafely(s.End), idForm)
	}
	g.checkTemplate(key+".prompt", s.Prompt)
	g.checkTemplate(key+".question", s.Question)
	for i, use := range s.Calls {
		eachText(use.Args, func(content string) { g.checkTemplate(itemKey(key+".calls", i)+".args", content) })
		if command, _ := use.Args["command"].(string); use.Tool == llm.RunCommand {
			t, _ := pipeline.ReadTemplate(command) // reported above
			if f := t.MisplacedField(); f != nil {
				g.Report(itemKey(key+".calls", i)+".args.command", "{{ %s }} stands within quotes, a comment, a here-document or arithmetic; a value becomes one quoted word, so let it stand alone", f)
			}
		}
	}
}

func (g *graphCheck) checkTemplate(key, content string) {
	t, err := pipeline.ReadTemplate(content)
	if err != nil {
		g.Report(key, "%v", err)
		return
	}
	for _, f := range t.Fields() {
		if why := g.refuseField(f); why != "" {
			g.Report(key, "{{ %s }} %s", f, why)
		}
	}
}

// refuseField returns the reason why a field can name no value.
func (g *graphCheck) refuseField(f pipeline.Field) string {
	switch path := f.Path; {
	case path[0] == pipeline.RequestValue && len(path) > 1:
		return "names a part of a text; give .request"
	case path[0] == pipeline.RequestValue:
	case path[0] == pipeline.InputsValue && (g.pipeline.Inputs == nil || !g.pipeline.Inputs.CanHave(path[1:])):
		return "is no input; give the pipeline a schema that has it, as inputs"
	case path[0] == pipeline.InputsValue, path[0] == pipeline.ItemValue:
	case path[0] == pipeline.IndexValue && len(path) > 1:
		return "names a part of a number; give .index"
	case path[0] == pipeline.IndexValue:
	case len(path) < 3 || path[2] != "text" && path[2] != "output" || path[2] == "text" && len(path) > 3:
		return "names no value of a step; give .steps.NAME.text or .steps.NAME.output.PATH"
	default:
		s, ok := g.pipeline.Step(path[1])
		switch {
		case !ok:
			return "names no step; the steps are " + strings.Join(g.names, ", ")
		case path[2] == "output" && !s.canLeave(path[3:]):
			return "is no part of the step's output; give the step a schema that has it, as output"
		}
	}
	return ""
}

// canLeave reports whether the output of the step can have a value at a path.
func (s PipelineStep) canLeave(path []string) bool {
	switch s.Kind {
	case pipeline.Parallel, pipeline.ForEach, pipeline.Nested:
		return true
	case pipeline.Approval:
		return len(path) == 0 || len(path) == 1 && slices.Contains([]string{"approved", "option", "text", "by"}, path[0])
	case pipeline.Agent, pipeline.Tools, pipeline.Session:
	}
	return s.Output != nil && s.Output.CanHave(path)
}

// eachText calls do with every text in arguments.
func eachText(value any, do func(string)) {
	switch v := value.(type) {
	case string:
		do(v)
	case []any:
		for _, item := range v {
			eachText(item, do)
		}
	case map[string]any:
		for _, item := range v {
			eachText(item, do)
		}
	}
}

// Reads returns the steps whose values the templates of the step name.
func (s PipelineStep) Reads() (names []string) {
	read := func(content string) {
		t, _ := pipeline.ReadTemplate(content) // checked with the definition
		for _, f := range t.Fields() {
			if name := f.Step(); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	read(s.Prompt)
	read(s.Question)
	for _, use := range s.Calls {
		eachText(use.Args, read)
	}
	slices.Sort(names)
	return names
}
