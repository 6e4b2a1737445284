package config

import (
	"cmp"
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"conclave/engine/text"
)

//go:embed starter.yaml
var starter string

// Starter returns a commented YAML file for newcomers. Without agents it equals Default with
// AutoShell; else it has the types, models and built-in tools of the given ones.
func Starter(agents []Agent) []byte {
	if len(agents) == 0 {
		return []byte(starter)
	}
	first, rest, _ := strings.Cut(starter, "  - id: agent_b\n")
	_, rest, _ = strings.Cut(rest, "\n\n")
	a := agents[0]
	members := strings.NewReplacer("type: openai\n", "type: "+a.Backend.Type+"\n", "model: "+defaultModel, fmt.Sprintf("model: %q", a.Backend.Model),
		"files: true #", fmt.Sprintf("files: %t #", a.Tools.Files), "shell: auto", "shell: "+string(a.Tools.Shell)).Replace(first)
	for _, a := range agents[1:] {
		members += fmt.Sprintf("  - id: %s\n    backend: {type: %s, model: %q}\n    tools: {files: %t, shell: %s}\n",
			a.ID, a.Backend.Type, a.Backend.Model, a.Tools.Files, a.Tools.Shell)
	}
	return []byte(members + "\n" + rest)
}

const (
	emptyTeam     = "the configuration is empty; `conclave config init` writes a starter file"
	emptyPipeline = "the pipeline is empty; it takes start and steps"
	emptyOther    = "the configuration is empty"
)

// Parse reads a team from YAML or JSON. Name is the file's name in messages.
// Errors are of type Problems and list every fault.
func Parse(name string, data []byte, reach Reach) (Team, error) {
	return decodeDocument(newDecoder(name, reach, teamType), data, Defaults[Team](), emptyTeam, func(Team) {})
}

// ParseSingle reads a team of exactly one agent for a local run, from a file. Unlike in
// Parse the agent's ID may be missing; it is then empty, and the caller chooses one.
func ParseSingle(file string, data []byte) (Team, error) {
	d := newDecoder(file, Local.Beside(file), teamType)
	d.single = true
	return decodeDocument(d, data, Defaults[Team](), emptyTeam, func(Team) {})
}

// ParsePipeline reads a pipeline from YAML or JSON, with warnings about its unreachable steps.
// It checks everything that needs no connection, since a run that fails in the middle has
// already cost money. The files of steps of kind pipeline are put in if the reach has a directory.
// Errors are of type Problems.
func ParsePipeline(name string, data []byte, reach Reach) (Pipeline, Problems, error) {
	return pipelineReader{reach: reach, defaults: Defaults[Pipeline]()}.read(name, data)
}

// ValidatePipeline is ParsePipeline with a check of the MCP servers that the document defines:
// check refuses those whose programs are not on this machine.
func ValidatePipeline(name string, data []byte, reach Reach, check func(MCPServer) error) (Pipeline, Problems, error) {
	return pipelineReader{reach: reach, defaults: Defaults[Pipeline](), program: check}.read(name, data)
}

// ParsePipelineRun is ParsePipeline for a run. If a person watches it, a failed step parks the run
// unless the document has on_step_failure. Agents of each list that name neither a model nor a
// server get the models of others in turn.
func ParsePipelineRun(name string, data []byte, reach Reach, watched bool, others []Agent) (Pipeline, Problems, error) {
	defaults := Defaults[Pipeline]()
	if watched {
		defaults.OnStepFailure = parkOnStepFailure
	}
	return pipelineReader{reach: reach, defaults: defaults, others: others}.read(name, data)
}

// pipelineReader is how a pipeline is read, and the pipelines in whose files its steps name others.
type pipelineReader struct {
	reach    Reach
	defaults Pipeline
	others   []Agent               // whose models the agents get that name none
	program  func(MCPServer) error // nil without a check of programs
	within   []string              // the files that lead to this one
}

func (r pipelineReader) read(name string, data []byte) (Pipeline, Problems, error) {
	d := newDecoder(name, r.reach, reflect.TypeFor[Pipeline]())
	d.others = r.others
	p, err := decodeDocument(d, data, r.defaults, emptyPipeline, func(p Pipeline) {
		d.fillModels(p.Agents)
		g := graphCheck{Decoder: d, pipeline: p}
		g.checkSteps()
		if r.program != nil {
			g.checkPrograms(r.program)
		}
	})
	if err != nil {
		return p, nil, err
	}
	g := &graphCheck{Decoder: d, pipeline: p}
	whole := r.addFiles(g)
	if err := d.problems.inTextOrder(); err != nil {
		return p, nil, err
	}
	return whole, g.warnOfUnreachable(), nil
}

// fillModels sets the models of agents that name neither a model nor a server.
func (d *Decoder) fillModels(agents []Agent) {
	filled := 0
	for i := range agents {
		b := &agents[i].Backend
		if len(d.others) > 0 && b.Model == "" && b.Type == OpenAI && b.Provider == "" && b.BaseURL == "" && b.APIKeyEnv == "" {
			from := d.others[filled%len(d.others)].Backend
			b.Type, b.Model, b.Provider = from.Type, from.Model, from.Provider
			filled++
		}
	}
}

// checkPrograms reports a pipeline's MCP servers that check refuses because their programs
// are not on this machine.
func (g *graphCheck) checkPrograms(check func(MCPServer) error) {
	report := func(key string, servers []MCPServer) {
		for i, s := range servers {
			if err := check(s); err != nil {
				g.Report(itemKey(key, i), "%s", err.Error())
			}
		}
	}
	team := func(key string, agents []Agent) {
		for i, a := range agents {
			report(itemKey(key, i)+".mcp_servers", a.MCPServers)
		}
	}
	team("agents", g.pipeline.Agents)
	for i, s := range g.pipeline.Steps {
		key := itemKey("steps", i)
		if s.MCPServers != nil {
			report(key+".mcp_servers", *s.MCPServers)
		}
		if s.Config != nil {
			team(key+".config.agents", s.Config.Agents)
		}
	}
}

// Decode reads another configuration from YAML or JSON into T, a struct with tags
// like Team's. Values of type Team within it are read as by Parse. Check reports
// violations that tags cannot express; it is called with everything that could be
// decoded. Errors are of type Problems.
func Decode[T any](name string, data []byte, reach Reach, check func(T, *Decoder)) (T, error) {
	d := newDecoder(name, reach, reflect.TypeFor[T]())
	return decodeDocument(d, data, Defaults[T](), emptyOther, func(t T) { check(t, d) })
}

func decodeDocument[T any](d *Decoder, data []byte, t T, empty string, check func(T)) (T, error) {
	var zero T
	root, err := ReadDocument(d.file, data)
	if err != nil {
		return zero, err
	}
	if kindOf(root) == null {
		d.reportAt(root, "", "%s", empty)
	} else {
		d.decodeValue(root, "", reflect.ValueOf(&t).Elem(), rule{})
	}
	if !d.invalid[""] {
		check(t)
	}
	if err := d.problems.inTextOrder(); err != nil {
		return zero, err
	}
	return t, nil
}

// Defaults returns a T with every default set.
func Defaults[T any]() T {
	var t T
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

// problem is one fault of a configuration.
type problem struct {
	File         string // the name given to Parse
	Line, Column int    // line and column, from 1
	Key          string // such as agents[0].backend.model; empty for the whole document
	Message      string // the fault, and the remedy or the nearest valid choice
	Unknown      bool   // the fault is a key that does not exist
}

// Error formats the problem on one line: file:line:column: key: message.
func (p problem) Error() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Message)
}

// Problems is the error of Parse: every fault, in the order of the text.
type Problems []problem

// maxShown bounds the number of problems printed.
const maxShown = 50

// Error lists the problems, one per line.
func (ps Problems) Error() string {
	lines := text.Each(ps[:min(len(ps), maxShown)], problem.Error)
	if more := len(ps) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", more))
	}
	return strings.Join(lines, "\n")
}

// inTextOrder returns the problems in the order of the text, or nil for an empty list.
func (ps Problems) inTextOrder() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b problem) int {
		if a.File != b.File {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
	return ps
}

func suggestChoice(word string, choices []string) string {
	valid := "valid: " + strings.Join(choices, ", ")
	if c, ok := text.Nearest(word, choices); ok {
		return "did you mean " + c + "? " + valid
	}
	return valid
}
