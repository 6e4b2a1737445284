package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// The roots of the values that templates name.
const (
	RequestValue = "request" // {{ .request }}
	InputsValue  = "inputs"  // {{ .inputs.NAME }}
	StepsValue   = "steps"   // {{ .steps.NAME.text }} and {{ .steps.NAME.output.PATH }}
	ItemValue    = "item"    // {{ .item }} and {{ .item.PATH }} in the steps of a for_each
	IndexValue   = "index"   // {{ .index }}, from 0
)

var roots = []string{RequestValue, InputsValue, StepsValue, ItemValue, IndexValue}

// maxValue bounds a value in a template, in bytes.
const maxValue = 64 << 10

// Field names a value of the run: {{ .request }} has the path request.
type Field struct {
	Path []string
	JSON bool // written as JSON: {{ json .inputs.name }}
}

func (f Field) String() string { return "." + strings.Join(f.Path, ".") }

// Source returns the field as it stands in a template.
func (f Field) Source() string {
	if f.JSON {
		return "{{ json " + f.String() + " }}"
	}
	return "{{ " + f.String() + " }}"
}

// Step returns the step whose value the field is, or "".
func (f Field) Step() string {
	if f.Path[0] == StepsValue && len(f.Path) > 1 {
		return f.Path[1]
	}
	return ""
}

// Template is a text with fields. All that is no field is text, double braces included.
type Template []part

type part struct {
	text  string
	field *Field
}

var (
	braces   = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)
	chain    = regexp.MustCompile(`^\s*(json\s+)?\.([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*$`)
	mentions = regexp.MustCompile(`(^|[^\w.])\.(` + strings.Join(roots, "|") + `)\b`)
)

// ReadTemplate reads a text. Its error names the character at which code begins that is not a field, or a
// field of an unknown root.
func ReadTemplate(content string) (Template, error) {
	var t Template
	rest := 0
	for _, at := range braces.FindAllStringSubmatchIndex(content, -1) {
		inner := content[at[2]:at[3]]
		found := chain.FindStringSubmatch(inner)
		shown, place := text.Truncate(content[at[0]:at[1]], 80), len([]rune(content[:at[0]]))+1
		switch {
		case found == nil && mentions.MatchString(inner):
			return nil, fmt.Errorf("%s at character %d is code; only a field can stand there, such as {{ .request }} or {{ json .steps.NAME.output }}", shown, place)
		case found == nil:
			continue
		}
		f := Field{Path: strings.Split(found[2], "."), JSON: found[1] != ""}
		if !slices.Contains(roots, f.Path[0]) {
			if strings.ToLower(f.Path[0][:1]) != f.Path[0][:1] {
				continue // a template of another program, such as {{ .Values.name }}
			}
			return nil, fmt.Errorf("%s at character %d names nothing; there are .request, .inputs.NAME, .steps.NAME.text, .steps.NAME.output, .item and .index", shown, place)
		}
		t = append(t, part{text: content[rest:at[0]]}, part{field: &f})
		rest = at[1]
	}
	return append(t, part{text: content[rest:]}), nil
}

// Fields returns the fields of the template, each once.
func (t Template) Fields() (fields []Field) {
	for _, p := range t {
		if p.field != nil && !slices.ContainsFunc(fields, p.field.isSame) {
			fields = append(fields, *p.field)
		}
	}
	return fields
}

// Field returns the field of a template that is one field and nothing else, or nil.
func (t Template) Field() *Field {
	var one *Field
	for _, p := range t {
		switch {
		case p.field != nil && one == nil:
			one = p.field
		case p.field != nil, strings.TrimSpace(p.text) != "":
			return nil
		}
	}
	return one
}

// FillTexts returns a copy of a JSON value with every text in it filled in.
func FillTexts(value any, fill func(string) (string, error)) (out any, err error) {
	switch v := value.(type) {
	case string:
		return fill(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			if list[i], err = FillTexts(item, fill); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, item := range v {
			if object[name], err = FillTexts(item, fill); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return value, nil
}

// Fill returns the text with each field replaced.
func (t Template) Fill(replace func(Field) (string, error)) (string, error) {
	var b strings.Builder
	for _, p := range t {
		content := p.text
		if p.field != nil {
			var err error
			if content, err = replace(*p.field); err != nil {
				return "", err
			}
		}
		b.WriteString(content)
	}
	return b.String(), nil
}

// MisplacedField returns the first field of a shell's command where quoting its value does not make it one word: within
// quotes, a comment, a here-document or arithmetic; or nil. In a command that cannot be read every field is misplaced.
func (t Template) MisplacedField() *Field {
	fields := t.Fields()
	name := func(f Field) string { return fmt.Sprintf("conclave-field-%d-", slices.IndexFunc(fields, f.isSame)) }
	script, _ := t.Fill(func(f Field) (string, error) { return name(f), nil }) // never fails
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	var words strings.Builder
	if err == nil {
		syntax.Walk(file, func(n syntax.Node) bool {
			for _, w := range plainWords(n) {
				words.WriteString(literalText(w) + "\n")
			}
			return true
		})
	}
	for i, f := range fields {
		if strings.Count(words.String(), name(f)) != strings.Count(script, name(f)) || strings.Contains(words.String(), `\`+name(f)) {
			return &fields[i]
		}
	}
	return nil
}

func (f Field) isSame(other Field) bool { return f.JSON == other.JSON && f.String() == other.String() }

// plainWords returns the words of a node that a shell takes as they are, once their quotes are removed.
func plainWords(n syntax.Node) (words []*syntax.Word) {
	assigned := func(assigns []*syntax.Assign) {
		for _, a := range assigns {
			if a.Value != nil && a.Index == nil {
				words = append(words, a.Value)
			}
		}
	}
	switch n := n.(type) {
	case *syntax.CallExpr:
		assigned(n.Assigns)
		words = append(words, n.Args...)
	case *syntax.DeclClause:
		if n.Variant.Value == "export" {
			assigned(n.Args)
		}
	case *syntax.Redirect:
		words = append(words, n.Word) // that of a here-document is only its end
	case *syntax.WordIter:
		words = append(words, n.Items...)
	case *syntax.CaseClause:
		words = append(words, n.Word)
	}
	return words
}

// literalText returns the text of a word that stands outside quotes and expansions.
func literalText(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		if lit, isLiteral := p.(*syntax.Lit); isLiteral {
			b.WriteString(lit.Value)
		}
	}
	return b.String()
}

// Values can be named by the templates of a run.
type Values struct {
	Request string
	Inputs  json.RawMessage // an object, or nil
	Steps   map[string]StepValue
	Item    json.RawMessage // the item of a for_each; nil outside
	Index   *int            // its index; nil outside
}

// StepValue is the end of the newest visit of a step.
type StepValue struct {
	Text   string
	Output json.RawMessage // nil without one
}

// Value returns the value of a field: the text of a string, or JSON. The value of a step that has not
// ended, or of a part that is not there, is empty, and null as JSON.
func (v Values) Value(f Field) (string, error) {
	quoted, _ := json.Marshal(v.Request) // encoding of strings cannot fail
	value, path := json.RawMessage(quoted), f.Path[1:]
	switch step := v.Steps[f.Step()]; {
	case f.Path[0] == InputsValue:
		value = v.Inputs
	case f.Path[0] == ItemValue:
		value = v.Item
	case f.Path[0] == IndexValue:
		value, _ = json.Marshal(v.Index) // null outside
	case f.Path[0] == StepsValue && f.Path[2] == "text":
		value, _ = json.Marshal(step.Text)
		path = nil
	case f.Path[0] == StepsValue:
		value, path = step.Output, f.Path[3:]
	}
	value = Part(value, path)
	shown := ShowValue(value)
	if f.JSON {
		shown = llm.Compact(cmp.Or(string(value), "null"))
	}
	if len(shown) > maxValue {
		return "", fmt.Errorf("%s has %s; a value in a template has at most %s, so name a part of it or write it to a file", f, text.Size(int64(len(shown))), text.Size(maxValue))
	}
	return shown, nil
}

// ShowValue returns a JSON value as it stands in a text: the text of a string, nothing for null, or else JSON.
func ShowValue(value json.RawMessage) string {
	var s string
	if len(value) == 0 || json.Unmarshal(value, &s) == nil { // null leaves it empty
		return s
	}
	return llm.Compact(string(value))
}

// Part returns a part of a JSON value by its names and, in arrays, its indexes from 0, or nil.
func Part(value json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(value, &object) == nil:
			value = object[name]
		case json.Unmarshal(value, &list) == nil:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(list) {
				return nil
			}
			value = list[i]
		default:
			return nil
		}
	}
	return value
}

// Match is a condition on a value of an output. It holds if all its keys do.
type Match struct {
	Equals  any      `json:"equals,omitempty" doc:"The value itself."`
	In      []any    `json:"in,omitempty" doc:"A list that has the value."`
	Matches string   `json:"matches,omitempty" doc:"A regular expression (RE2) that matches the value somewhere; JSON if it is no text."`
	Above   *float64 `json:"above,omitempty" doc:"A number that is less than the value."`
	Below   *float64 `json:"below,omitempty" doc:"A number that is greater than the value."`
}

// Fits reports whether a value, which is nil if missing, meets the condition.
func (m Match) Fits(value json.RawMessage) bool {
	var given any
	if value == nil || json.Unmarshal(value, &given) != nil {
		return false
	}
	same := func(want any) bool {
		a, errA := json.Marshal(want)
		b, errB := json.Marshal(given) // sorts the keys of both
		return errA == nil && errB == nil && bytes.Equal(a, b)
	}
	number, isNumber := given.(float64)
	words, isText := given.(string)
	if !isText {
		words = string(value)
	}
	pattern, err := regexp.Compile(m.Matches) // checked with the definition
	switch {
	case m.Equals != nil && !same(m.Equals):
	case m.In != nil && !slices.ContainsFunc(m.In, same):
	case m.Matches != "" && (err != nil || !pattern.MatchString(words)):
	case m.Above != nil && (!isNumber || number <= *m.Above):
	case m.Below != nil && (!isNumber || number >= *m.Below):
	default:
		return true
	}
	return false
}

// Content has the conditions of a rule on the content of a step: its text and parts of its output, by their paths.
type Content struct {
	TextMatches string
	Output      map[string]Match
}

// Fits reports whether the conditions hold. It is false for a rule without any.
func (c Content) Fits(content string, output json.RawMessage) bool {
	re, err := regexp.Compile(c.TextMatches) // checked with the definition
	fits := err == nil && re.MatchString(content) && (c.TextMatches != "" || len(c.Output) > 0)
	for path, match := range c.Output {
		fits = fits && match.Fits(Part(output, strings.Split(path, ".")))
	}
	return fits
}
