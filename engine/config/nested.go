package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/text"
)

// maxNested bounds the file of a nested pipeline, in bytes.
const maxNested = 1 << 20

// checkNested checks a step of kind pipeline, whose file is put in by whoever starts the run.
func (g *graphCheck) checkNested(key string, s PipelineStep) {
	switch {
	case s.File != "" && s.Each != "":
		g.Report(key+".step", "has no meaning beside file; remove it")
	case s.File != "" && g.reach.dir == "":
		g.Report(key+".file", "files are put in before a run starts: send what `conclave pipeline validate --whole` prints")
	case s.File == "" && s.Each == "":
		g.Report(key+".file", "missing; name the file of a pipeline")
	case s.Each != "":
		g.checkEntrance(key+".step", s.Each)
	}
	if s.Result != "" && !slices.Contains(g.names, s.Result) {
		g.Name(key+".result", s.Result, "a step", g.names)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		at := joinKey(key+".inputs", name)
		eachText(s.Inputs[name], func(content string) { g.checkTemplate(at, content) })
		if content, ok := s.Inputs[name].(string); ok {
			if t, err := pipeline.ReadTemplate(content); err == nil && len(t.Fields()) > 0 && t.Field() == nil {
				g.Report(at, "mixes a field with other text; give a text, or one field alone, such as {{ .item }}")
			}
		}
	}
}

// addFiles puts the pipelines in whose files the steps name.
func (r pipelineReader) addFiles(g *graphCheck) Pipeline {
	p := g.pipeline
	p.Steps, p.Agents = slices.Clone(p.Steps), slices.Clone(p.Agents)
	for i, s := range g.pipeline.Steps {
		if s.File == "" {
			continue
		}
		key := itemKey("steps", i)
		inner, err := r.readNested(g, s.File)
		if faults, ok := errors.AsType[Problems](err); ok {
			for _, fault := range faults {
				if !slices.Contains(g.problems, fault) { // of a file that two steps name
					g.problems = append(g.problems, fault)
				}
			}
			continue
		}
		if err == nil {
			err = inner.refuseNested()
		}
		if err != nil {
			g.Report(key+".file", "%v", err)
		} else if err := inner.checkGiven(s.Inputs); err != nil {
			g.Report(key+".inputs", "%v", err)
		} else {
			p.addNested(i, inner)
		}
	}
	if len(p.Steps) > maxSteps {
		g.Report("steps", "%d steps with those of its files are too many; a pipeline has at most %d", len(p.Steps), maxSteps)
	}
	return p
}

// readNested reads a file, which a relative path names beside the one that is read.
func (r pipelineReader) readNested(g *graphCheck, file string) (Pipeline, error) {
	path := file
	if !filepath.IsAbs(file) {
		path = filepath.Join(filepath.Dir(g.file), file)
	}
	r.within = append(slices.Clone(r.within), filepath.Clean(g.file))
	if at := slices.Index(r.within, path); at >= 0 {
		return Pipeline{}, fmt.Errorf("leads back to itself: %s", strings.Join(append(r.within[at:], path), " → "))
	}
	if most := g.pipeline.Limits.MaxCallDepth; len(r.within) > most {
		return Pipeline{}, fmt.Errorf("is nested %d deep; limits.max_call_depth is %d", len(r.within), most)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Pipeline{}, fmt.Errorf("there is no file %s", path)
	case err != nil:
		return Pipeline{}, err
	case !info.Mode().IsRegular() || info.Size() > maxNested:
		return Pipeline{}, fmt.Errorf("%s is no file of at most %s", path, text.Size(maxNested))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Pipeline{}, err
	}
	r.reach = r.reach.Beside(path)
	inner, _, err := r.read(path, data)
	return inner, err
}

// refuseNested returns why a pipeline cannot be a step of another.
func (p Pipeline) refuseNested() error {
	switch l := p.Limits; {
	case p.Finally != "":
		return errors.New("has a step that runs at each end, which only a run of its own has; name it in this file, as finally")
	case l.Seconds != nil || l.CostUSD != nil || l.Steps != nil:
		return errors.New("limits the seconds, dollars or steps of a run of its own; limit its steps, or the run in this file")
	}
	return nil
}

// checkGiven checks the inputs that a step gives a nested pipeline. Fields have values only when the run is there.
func (p Pipeline) checkGiven(given map[string]any) error {
	fields := fieldsIn(given)
	if len(fields) == 0 || p.Inputs == nil {
		data, _ := json.Marshal(given) // it was read from JSON
		_, err := p.ReadInputs(data)
		return err
	}
	var schema struct{ Required []string }
	_ = json.Unmarshal([]byte(p.Inputs.Sent("")), &schema)
	for _, name := range schema.Required {
		if _, is := given[name]; !is {
			return fmt.Errorf("the input %s is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !p.Inputs.CanHave([]string{name}) {
			return fmt.Errorf("the pipeline takes no input %s", quoteSafely(name))
		}
	}
	return nil
}

// fieldsIn returns the inputs that are fields of templates, by name.
func fieldsIn(given map[string]any) map[string]pipeline.Field {
	fields := map[string]pipeline.Field{}
	for name, value := range given {
		content, _ := value.(string)
		if t, err := pipeline.ReadTemplate(content); err == nil && t.Field() != nil {
			fields[name] = *t.Field()
		}
	}
	return fields
}

// addNested adds the steps and agents of a pipeline, those whose names are taken with a number, and makes the i-th step
// begin with the first of them.
func (p *Pipeline) addNested(i int, inner Pipeline) {
	step := &p.Steps[i]
	n := nested{steps: map[string]string{}, agents: map[string]string{}, fields: fieldsIn(step.Inputs)}
	literals := maps.Clone(step.Inputs)
	maps.DeleteFunc(literals, func(name string, _ any) bool { _, is := n.fields[name]; return is })
	n.literals, _ = json.Marshal(literals) // it was read from JSON
	for _, a := range inner.Agents {
		n.agents[a.ID] = p.addAgent(a)
	}
	for _, s := range inner.Steps {
		n.steps[s.Name] = freeName(s.Name, func(name string) bool {
			_, taken := p.Step(name)
			_, own := inner.Step(name)
			return taken || name != s.Name && own || slices.Contains(slices.Collect(maps.Values(n.steps)), name)
		})
	}
	step.File, step.Inputs = "", nil
	step.Each, step.Result = n.steps[inner.Start], n.steps[inner.Result]
	for _, s := range inner.Steps {
		if s.Agent == "" && len(inner.Agents) > 0 && (s.Kind == pipeline.Agent || s.Kind == pipeline.Tools) {
			s.Agent = inner.Agents[0].ID
		}
		p.Steps = append(p.Steps, n.rename(s))
	}
}

// addAgent adds an agent unless an equal one is there, maybe with a number, and returns its ID.
func (p *Pipeline) addAgent(a Agent) string {
	for _, other := range p.Agents {
		same := a
		if strings.HasPrefix(other.ID, a.ID+"-") {
			same.ID = other.ID
		}
		is, _ := json.Marshal(same) // as in the canonical form
		if data, _ := json.Marshal(other); string(data) == string(is) {
			return other.ID
		}
	}
	a.ID = freeName(a.ID, func(id string) bool { _, taken := Team{Agents: p.Agents}.Agent(id); return taken })
	p.Agents = append(p.Agents, a)
	return a.ID
}

// freeName returns a name that is not taken: itself, or with the first number that makes it free.
func freeName(name string, taken func(string) bool) string {
	free := name
	for n := 2; taken(free); n++ {
		number := fmt.Sprintf("-%d", n)
		free = name[:min(len(name), maxID-len(number))] + number
	}
	return free
}

// nested are the new names of the steps and agents of a nested pipeline, and its inputs.
type nested struct {
	steps, agents map[string]string
	fields        map[string]pipeline.Field // inputs that have a value only when the run is there
	literals      json.RawMessage           // the other ones
}

// rename returns a step with the new names and with its inputs.
func (n nested) rename(s PipelineStep) PipelineStep {
	s.Name, s.Each, s.Result = n.steps[s.Name], n.steps[s.Each], n.steps[s.Result]
	if s.Agent != "" {
		s.Agent = n.agents[s.Agent]
	}
	s.Destinations = text.Each(s.Destinations, func(to string) string { return n.steps[to] })
	s.Next = slices.Clone(s.Next)
	for i := range s.Next {
		s.Next[i].To = n.steps[s.Next[i].To]
	}
	if v := s.MaxVisits; v != nil && v.Then != "" {
		s.MaxVisits = &visits{Count: v.Count, Then: n.steps[v.Then]}
	}
	s.Branches = maps.Clone(s.Branches)
	for name, to := range s.Branches {
		s.Branches[name] = n.steps[to]
	}
	if s.OnConflict != "" && s.OnConflict != failKey {
		s.OnConflict = n.steps[s.OnConflict]
	}
	if of := s.ItemSource(); of.From != "" {
		items := map[string]any{"from": n.steps[of.From]}
		if of.Path != "" {
			items["path"] = of.Path
		}
		s.Items = items
	}
	s.Prompt, s.Question = n.renameText("", s.Prompt), n.renameText("", s.Question)
	s.Calls = slices.Clone(s.Calls)
	for i, use := range s.Calls {
		filled, _ := pipeline.FillTexts(use.Args, func(content string) (string, error) { return n.renameText(use.Tool, content), nil })
		s.Calls[i].Args, _ = filled.(map[string]any)
	}
	return s
}

// renameText rewrites the fields of a template: steps by their new names, and inputs by the values of the outer step. In a
// command, a value is one word.
func (n nested) renameText(tool, content string) string {
	t, err := pipeline.ReadTemplate(content)
	if err != nil { // which was reported
		return content
	}
	filled, _ := t.Fill(func(f pipeline.Field) (string, error) { // which never fails
		switch {
		case f.Step() != "":
			f.Path = append([]string{f.Path[0], n.steps[f.Step()]}, f.Path[2:]...)
		case f.Path[0] != pipeline.InputsValue:
		case len(f.Path) > 1 && n.fields[f.Path[1]].Path != nil:
			given := n.fields[f.Path[1]]
			f = pipeline.Field{Path: slices.Concat(given.Path, f.Path[2:]), JSON: f.JSON || given.JSON}
		default:
			value, err := pipeline.Values{Inputs: n.literals}.Value(f)
			if err != nil {
				return "", err
			}
			if tool == llm.RunCommand {
				value = text.ShellQuote(value)
			}
			return value, nil
		}
		return f.Source(), nil
	})
	return filled
}
