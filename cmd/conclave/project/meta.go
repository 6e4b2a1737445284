package project

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"conclave/engine/scenario"
	"conclave/engine/text"
)

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
	return m, misspelt(data)
}

// misspelt returns an error for an unknown key that resembles a known one.
func misspelt(data []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return err
	}
	top := document.Content[0]
	given := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		given[top.Content[i].Value] = true
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key := top.Content[i]
		if slices.Contains(keys, key.Value) {
			continue
		}
		if near, ok := text.Nearest(key.Value, keys); ok && !given[near] {
			return fmt.Errorf("line %d, column %d: %.80q is not a key of meta.yaml; did you mean %s?", key.Line, key.Column, key.Value, near)
		}
	}
	return nil
}

// field is a key of meta.yaml with its new value.
type field struct {
	key   string
	value any
}

// edit sets fields in a meta.yaml and keeps its comments and other keys. For a new file data is
// empty.
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
