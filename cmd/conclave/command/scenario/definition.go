package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// definition is a scenario as read from its folder.
type definition struct {
	Plan  scenario.Plan
	Tags  []string
	Files map[string]string // files of steps, by name
	PRD   string            // prd.md of the project; empty if missing
}

// Values are the placeholder values that the command line sets for a run.
type Values struct {
	BaseURL string // address that replaces that of prd.md; empty for none
	Vars    scenario.Vars
}

// Load reads a scenario with its files and prd.md, replaces their placeholders, and checks its credentials.
func (p *Project) Load(slug string, values Values) (definition, error) {
	d, err := p.Describe(slug)
	if err != nil {
		return d, err
	}
	if d.PRD, err = p.loadPRD(&values); err != nil {
		return d, err
	}
	d.Files = map[string]string{}
	for _, s := range d.Plan.All() {
		content, err := p.readText(scenarioPath(slug, "steps", s.File))
		if err != nil {
			return d, fmt.Errorf("step %s of scenario %s: %w", s.ID, slug, err)
		}
		if strings.TrimSpace(content) == "" {
			return d, fmt.Errorf("step %s of scenario %s: %s is empty; describe its actions there", s.ID, slug, p.Path(slug, "steps", s.File))
		}
		if content, err = values.Vars.Expand(p.Path(slug, "steps", s.File), content); err != nil {
			return d, fmt.Errorf("step %s of scenario %s: %w", s.ID, slug, err)
		}
		d.Files[s.File] = content
		if _, err := scenario.AsksForCredentials(content); err != nil {
			return d, fmt.Errorf("step %s of scenario %s: %w", s.ID, slug, err)
		}
	}
	return d, nil
}

// loadPRD reads prd.md with the values of a run and sets BASE_URL to the address in it.
func (p *Project) loadPRD(values *Values) (string, error) {
	prd, err := p.readText(prdFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	vars := scenario.Vars{Values: maps.Clone(values.Vars.Values), Used: values.Vars.Used}
	if vars.Values == nil {
		vars = scenario.Vars{Values: map[string]string{}, Used: map[string]bool{}}
	}
	values.Vars = vars
	if values.BaseURL != "" {
		vars.Values[scenario.BaseURLVar] = values.BaseURL
		prd = scenario.WithBaseURL(prd, values.BaseURL)
	}
	if prd, err = vars.Expand(p.PRD(), prd); err != nil {
		return "", err
	}
	if url := scenario.BaseURL(prd); url != "" && vars.Values[scenario.BaseURLVar] == "" {
		vars.Values[scenario.BaseURLVar] = url
	}
	if _, err = scenario.ParseProject(prd); err != nil {
		return "", fmt.Errorf("read %s: %w", p.dir, err)
	}
	return prd, nil
}

// Describe reads a scenario's meta.yaml.
func (p *Project) Describe(slug string) (definition, error) {
	var d definition
	if err := scenario.CheckSlug(slug); err != nil {
		return d, err
	}
	data, err := p.readDocument(scenarioPath(slug, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return d, p.unknownScenario(slug)
	}
	if err != nil {
		return d, err
	}
	m, err := readMeta(data)
	if err != nil {
		return d, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	d.Plan = scenario.Plan{
		Slug: cmp.Or(m.Slug, slug), Title: cmp.Or(m.Title, slug), Steps: m.Steps, Before: m.Before, After: m.After, Limits: m.Limits,
		RequireEvidence: m.RequireEvidence, Browser: m.Browser, OnLostTools: m.OnLostTools,
	}
	d.Tags = m.Tags
	if d.Plan.Slug != slug {
		return d, fmt.Errorf("read %s: its slug is %.64q; it has to be that of its folder, %s", p.Path(slug, metaFile), d.Plan.Slug, slug)
	}
	for _, steps := range [][]scenario.StepRef{d.Plan.Before, d.Plan.Steps, d.Plan.After} {
		for i := range steps {
			steps[i].Title = cmp.Or(steps[i].Title, "Step "+steps[i].ID)
		}
	}
	if err := d.Plan.Check(); err != nil {
		return d, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	return d, nil
}

func (p *Project) unknownScenario(slug string) error {
	slugs, err := p.Slugs()
	switch {
	case err != nil:
		return err
	case len(slugs) == 0:
		return fmt.Errorf("there is no scenario %s in %s, and no other; `conclave scenario create` makes one", slug, p.dir)
	}
	return fmt.Errorf("there is no scenario %s in %s; there are %s", slug, p.dir, strings.Join(slugs, ", "))
}

func (p *Project) readText(file string) (string, error) {
	data, err := p.readDocument(file)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("read %s: it is not UTF-8 text", filepath.Join(p.dir, file))
	}
	return string(data), err
}

// saved is the outcome of Save.
type saved struct {
	New     bool     // the scenario did not exist
	Files   []string // absolute paths of the written files
	Removed []string // files of removed steps
}

// Save writes a scenario's title, steps and tags; nil keeps the existing tags. It keeps the
// scenario's other keys and its runs.
func (p *Project) Save(plan scenario.Plan, files map[string]string, tags []string) (saved, error) {
	var s saved
	if err := plan.Check(); err != nil {
		return s, err
	}
	file := scenarioPath(plan.Slug, metaFile)
	before, err := p.readDocument(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.New, before = true, nil
	case err != nil:
		return s, err
	default:
		if m, err := readMeta(before); err == nil { // editFields reports the error
			plan.Before, plan.After = m.Before, m.After
		}
		if err := plan.Check(); err != nil {
			return s, err
		}
	}
	fields := []field{{"title", plan.Title}, {"slug", plan.Slug}, {"steps", plan.Steps}}
	if s.New || tags != nil {
		fields = append(fields, field{"tags", append([]string{}, tags...)})
	}
	if s.New {
		fields = append(fields, field{"statistics", scenario.Statistics{}})
	}
	after, err := editFields(before, fields)
	if err != nil {
		return s, fmt.Errorf("read %s: %w; correct it, or remove it", p.Path(plan.Slug, metaFile), err)
	}
	for _, step := range plan.Steps {
		if err := p.writeBytes(scenarioPath(plan.Slug, "steps", step.File), []byte(files[step.File])); err != nil {
			return s, err
		}
		s.Files = append(s.Files, p.Path(plan.Slug, "steps", step.File))
	}
	// Writing meta.yaml activates the new definition.
	if err := p.writeBytes(file, after); err != nil {
		return s, err
	}
	s.Files = append(s.Files, p.Path(plan.Slug, metaFile))
	s.Removed, err = p.removeOrphans(plan)
	return s, err
}

func (p *Project) removeOrphans(plan scenario.Plan) ([]string, error) {
	entries, err := p.listFolder(scenarioPath(plan.Slug, "steps"))
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, e := range entries {
		planned := slices.ContainsFunc(plan.All(), func(s scenario.StepRef) bool { return s.File == e.Name() })
		if planned || !e.Type().IsRegular() || !scenario.IsStepFile(e.Name()) {
			continue
		}
		if err := p.root.Remove(scenarioPath(plan.Slug, "steps", e.Name())); err != nil {
			return removed, fmt.Errorf("remove %s, which belongs to no step any more: %w", p.Path(plan.Slug, "steps", e.Name()), withoutPath(err))
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

// Unfilled is the placeholder address in the template of prd.md.
const Unfilled = "http://HOST:PORT"

const prdTemplate = `# Project

Every step reads the sections Application Type, Base URL and Tech Stack. A step whose file begins with the lines
"---", "credentials: true" and "---" also reads Credentials: lines such as "- password: hunter2", of which no value
appears in results. Other sections are for people.

## Application Type

web

## Base URL

` + Unfilled + `

## Tech Stack

## Credentials
`

// PRD returns the absolute path of prd.md.
func (p *Project) PRD() string { return filepath.Join(p.dir, prdFile) }

// Template writes a template of prd.md unless the file exists.
func (p *Project) Template() (written bool, err error) {
	if _, err := p.root.Lstat(prdFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, p.writeBytes(prdFile, []byte(prdTemplate))
}

// meta has the keys of meta.yaml that conclave reads.
type meta struct {
	Slug  string             `yaml:"slug"`
	Title string             `yaml:"title"`
	Steps []scenario.StepRef `yaml:"steps"`
	Tags  []string           `yaml:"tags"`

	Before          []scenario.StepRef `yaml:"before"`
	After           []scenario.StepRef `yaml:"after"`
	Limits          scenario.Limits    `yaml:"limits"`
	RequireEvidence bool               `yaml:"require_evidence"`
	Browser         string             `yaml:"browser"`
	OnLostTools     string             `yaml:"on_lost_tools"`
}

// keys are the known keys of meta.yaml. Other keys are notes for people.
var keys = []string{
	"slug", "title", "steps", "tags", "before", "after", "limits", "require_evidence", "browser", "on_lost_tools", "statistics",
}

// readMeta parses a meta.yaml. Its errors describe the file rather than Go types. It
// refuses a key that looks like a misspelt known one.
func readMeta(data []byte) (meta, error) {
	var m meta
	err := yaml.Unmarshal(data, &m)
	if shape, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(shape.Errors) > 0 {
		return m, fmt.Errorf(`line %d: a value of the wrong type; the file takes title: TEXT, slug: TEXT, steps, before and after: [{id: "01", title: TEXT, file: 01-open.md}], tags: [TEXT], `+
			`limits: {seconds: NUMBER, model_calls: NUMBER, cost_usd: NUMBER}, require_evidence: true, browser: run and on_lost_tools: tell`,
			shape.Errors[0].Mark.Line)
	}
	if err != nil {
		return m, err
	}
	return m, checkKeys(data)
}

func checkKeys(data []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return err
	}
	top := document.Content[0]
	for _, e := range config.Entries(top) {
		near, ok := text.Nearest(e.Key.Value, keys)
		if ok && !slices.Contains(keys, e.Key.Value) && config.Lookup(top, near) == nil {
			return fmt.Errorf("line %d, column %d: %.80q is not a key of meta.yaml; did you mean %s?", e.Key.Line, e.Key.Column, e.Key.Value, near)
		}
	}
	return nil
}

// field is a key of meta.yaml with its new value.
type field struct {
	key   string
	value any
}

// editFields sets fields in a meta.yaml and keeps its comments and other keys. For a new file data is empty.
func editFields(data []byte, fields []field) ([]byte, error) {
	var document yaml.Node
	if len(bytes.TrimSpace(data)) > 0 {
		if err := yaml.Unmarshal(data, &document); err != nil {
			return nil, err
		}
	}
	if document.Kind == 0 || len(document.Content) == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("not a mapping of keys to values")
	}
	for _, f := range fields {
		value := &yaml.Node{}
		if err := value.Encode(f.value); err != nil {
			return nil, fmt.Errorf("%s: %w", f.key, err)
		}
		config.SetEntry(top, f.key, value)
	}
	var b bytes.Buffer
	to, err := yaml.NewDumper(&b, yaml.WithIndent(2))
	if err != nil {
		return nil, err
	}
	err = errors.Join(to.Dump(&document), to.Close())
	return b.Bytes(), err
}
