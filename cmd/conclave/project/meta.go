package project

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"conclave/engine/scenario"
)

// meta is the part of meta.yaml that is read.
type meta struct {
	Slug  string             `yaml:"slug"`
	Title string             `yaml:"title"`
	Steps []scenario.StepRef `yaml:"steps"`
	Tags  []string           `yaml:"tags"`
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

// edit sets fields of a meta.yaml, empty for a new file, and keeps everything else:
// comments and the author's own keys.
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
