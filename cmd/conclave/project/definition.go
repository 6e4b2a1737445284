package project

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"conclave/engine/scenario"
)

// definition is a scenario in its folder.
type definition struct {
	Plan  scenario.Plan
	Tags  []string
	Files map[string]string // of steps, by name
	PRD   string            // prd.md of the project; empty if missing
}

// Load reads a scenario with its files and prd.md, and checks its credentials.
func (p *Project) Load(slug string) (definition, error) {
	d, err := p.Describe(slug)
	if err != nil {
		return d, err
	}
	d.Files = map[string]string{}
	for _, s := range d.Plan.Steps {
		content, err := p.text(name(slug, "steps", s.File))
		if err != nil {
			return d, fmt.Errorf("step %s of scenario %s: %w", s.ID, slug, err)
		}
		if strings.TrimSpace(content) == "" {
			return d, fmt.Errorf("step %s of scenario %s: %s is empty; describe its actions there", s.ID, slug, p.Path(slug, "steps", s.File))
		}
		d.Files[s.File] = content
		if _, err := scenario.AsksForCredentials(content); err != nil {
			return d, fmt.Errorf("step %s of scenario %s: %w", s.ID, slug, err)
		}
	}
	if d.PRD, err = p.text(prdFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	if _, err = scenario.ParseProject(d.PRD); err != nil {
		return d, fmt.Errorf("read %s: %w", p.dir, err)
	}
	return d, nil
}

// Describe reads a scenario's meta.yaml.
func (p *Project) Describe(slug string) (definition, error) {
	var d definition
	if err := scenario.CheckSlug(slug); err != nil {
		return d, err
	}
	data, err := p.read(name(slug, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return d, p.unknown(slug)
	}
	if err != nil {
		return d, err
	}
	m, err := readMeta(data)
	if err != nil {
		return d, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	d.Plan = scenario.Plan{Slug: cmp.Or(m.Slug, slug), Title: cmp.Or(m.Title, slug), Steps: m.Steps, OnLostTools: m.OnLostTools}
	d.Tags = m.Tags
	if d.Plan.Slug != slug {
		return d, fmt.Errorf("read %s: its slug is %.64q; it has to be that of its folder, %s", p.Path(slug, metaFile), d.Plan.Slug, slug)
	}
	for i := range d.Plan.Steps {
		if s := &d.Plan.Steps[i]; s.Title == "" {
			s.Title = "Step " + s.ID
		}
	}
	if err := d.Plan.Check(); err != nil {
		return d, fmt.Errorf("read %s: %w", p.Path(slug, metaFile), err)
	}
	return d, nil
}

// unknown returns the error for a missing scenario, with the existing ones.
func (p *Project) unknown(slug string) error {
	slugs, err := p.Slugs()
	switch {
	case err != nil:
		return err
	case len(slugs) == 0:
		return fmt.Errorf("there is no scenario %s in %s, and no other; `conclave scenario create` makes one", slug, p.dir)
	}
	return fmt.Errorf("there is no scenario %s in %s; there are %s", slug, p.dir, strings.Join(slugs, ", "))
}

func (p *Project) text(file string) (string, error) {
	data, err := p.read(file)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("read %s: it is not UTF-8 text", filepath.Join(p.dir, file))
	}
	return string(data), err
}

// saved is the effect of Save.
type saved struct {
	New     bool     // the scenario did not exist
	Files   []string // written ones, absolute
	Removed []string // files of removed steps
}

// Save writes a scenario's definition. It keeps statistics, runs and other keys, and nil tags.
func (p *Project) Save(plan scenario.Plan, files map[string]string, tags []string) (saved, error) {
	var s saved
	if err := plan.Check(); err != nil {
		return s, err
	}
	file := name(plan.Slug, metaFile)
	before, err := p.read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.New, before = true, nil
	case err != nil:
		return s, err
	}
	fields := []field{{"title", plan.Title}, {"slug", plan.Slug}, {"steps", plan.Steps}}
	if s.New || tags != nil {
		fields = append(fields, field{"tags", append([]string{}, tags...)})
	}
	if s.New {
		fields = append(fields, field{"statistics", scenario.Statistics{}})
	}
	after, err := edit(before, fields)
	if err != nil {
		return s, fmt.Errorf("read %s: %w; correct it, or remove it", p.Path(plan.Slug, metaFile), err)
	}
	for _, step := range plan.Steps {
		if err := p.writeBytes(name(plan.Slug, "steps", step.File), []byte(files[step.File])); err != nil {
			return s, err
		}
		s.Files = append(s.Files, p.Path(plan.Slug, "steps", step.File))
	}
	// meta.yaml makes the new definition valid.
	if err := p.writeBytes(file, after); err != nil {
		return s, err
	}
	s.Files = append(s.Files, p.Path(plan.Slug, metaFile))
	s.Removed, err = p.removeOrphans(plan)
	return s, err
}

// removeOrphans removes the files of steps that the plan no longer has.
func (p *Project) removeOrphans(plan scenario.Plan) ([]string, error) {
	entries, err := p.entries(name(plan.Slug, "steps"))
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, e := range entries {
		planned := slices.ContainsFunc(plan.Steps, func(s scenario.StepRef) bool { return s.File == e.Name() })
		if planned || !e.Type().IsRegular() || !scenario.IsStepFile(e.Name()) {
			continue
		}
		if err := p.root.Remove(name(plan.Slug, "steps", e.Name())); err != nil {
			return removed, fmt.Errorf("remove %s, which belongs to no step any more: %w", p.Path(plan.Slug, "steps", e.Name()), unpathed(err))
		}
		removed = append(removed, e.Name())
	}
	slices.Sort(removed)
	return removed, nil
}

// Unfilled is the address in the template of prd.md.
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

// Template writes a prd.md to fill in, unless there is one.
func (p *Project) Template() (written bool, err error) {
	if _, err := p.root.Lstat(prdFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, p.writeBytes(prdFile, []byte(prdTemplate))
}

// meta is the part of meta.yaml that is read.
type meta struct {
	Slug  string             `yaml:"slug"`
	Title string             `yaml:"title"`
	Steps []scenario.StepRef `yaml:"steps"`
	Tags  []string           `yaml:"tags"`

	OnLostTools string `yaml:"on_lost_tools"`
}

// readMeta reads a meta.yaml. Its errors describe the file instead of Go types.
func readMeta(data []byte) (meta, error) {
	var m meta
	err := yaml.Unmarshal(data, &m)
	if shape, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(shape.Errors) > 0 {
		err = fmt.Errorf(`line %d: a value of the wrong type; the file takes title: TEXT, slug: TEXT, steps: [{id: "01", title: TEXT, file: 01-open.md}] and tags: [TEXT]`,
			shape.Errors[0].Mark.Line)
	}
	return m, err
}

// field is a key of meta.yaml with its new value.
type field struct {
	key   string
	value any
}

// edit sets fields of a meta.yaml, empty for a new file, and keeps comments and other keys.
func edit(data []byte, fields []field) ([]byte, error) {
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
		set(top, f.key, value)
	}
	var b bytes.Buffer
	to, err := yaml.NewDumper(&b, yaml.WithIndent(2))
	if err != nil {
		return nil, err
	}
	err = errors.Join(to.Dump(&document), to.Close())
	return b.Bytes(), err
}

// set replaces a key's value, or appends the key.
func set(top *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value == key {
			value.HeadComment, value.LineComment = top.Content[i+1].HeadComment, top.Content[i+1].LineComment
			top.Content[i+1] = value
			return
		}
	}
	top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}
