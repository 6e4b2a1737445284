package project

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"conclave/engine/scenario"
)

// meta is a scenario's meta.yaml, as far as it is read.
type meta struct {
	Slug  string             `yaml:"slug"`
	Title string             `yaml:"title"`
	Steps []scenario.StepRef `yaml:"steps"`
	Tags  []string           `yaml:"tags"`
}

// readMeta reads a meta.yaml. What has the wrong shape is told in words of the file,
// not of this program.
func readMeta(data []byte) (meta, error) {
	var m meta
	err := yaml.Unmarshal(data, &m)
	var shape *yaml.LoadErrors
	if errors.As(err, &shape) && len(shape.Errors) > 0 {
		err = fmt.Errorf(`line %d: what stands there does not belong there; the file takes title: TEXT, slug: TEXT, steps: [{id: "01", title: TEXT, file: 01-open.md}] and tags: [TEXT]`,
			shape.Errors[0].Mark.Line)
	}
	return m, err
}

// field is a key of meta.yaml and what is to be its value.
type field struct {
	key   string
	value any
}

// edit sets fields of a meta.yaml and leaves all else as it stands, comments
// included: its author may keep keys of their own there. Nothing stands for a new
// file.
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
		return nil, errors.New("it is no mapping of keys to values")
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
