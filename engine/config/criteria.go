package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/text"
)

// Criteria are the criteria that answers are judged by.
type Criteria []Criterion

// Criterion is one aspect that answers are judged by. Only Text is required.
type Criterion struct {
	Text         string         `json:"text"`
	Category     string         `json:"category"` // primary, standard or stretch
	VerifyBy     string         `json:"verify_by,omitempty"`
	AntiPatterns []string       `json:"anti_patterns,omitempty"`
	ScoreAnchors map[string]any `json:"score_anchors,omitempty"` // the meaning of each score
}

var criteriaType = reflect.TypeFor[Criteria]()

// ParseCriteria reads evaluation criteria from JSON: an array, or an object with the key criteria. Every item
// needs a text, which may be called description or name. Optional keys of a wrong type are ignored, as are
// keys of other programs; an empty list is valid. Errors are of type Problems.
func ParseCriteria(name string, data []byte) (Criteria, error) {
	criteria, _, err := ReviewCriteria(name, data)
	return criteria, err
}

// ReviewCriteria is ParseCriteria with a warning for each ignored key that was probably meant to count.
func ReviewCriteria(name string, data []byte) (Criteria, Problems, error) {
	root, err := readJSON(name, data)
	if err != nil {
		return nil, nil, err
	}
	r := criteriaReader{Decoder: newDecoder(name, Local, criteriaType), inFile: true}
	if kindOf(root) == mapping {
		inner := Lookup(root, "criteria")
		if inner == nil {
			r.reportAt(root, "", "no key criteria; evaluation criteria are an array, or an object with the key criteria")
			return nil, nil, r.problems
		}
		root = inner
	}
	if kindOf(root) != list {
		r.reportType(root, "", "an array of criteria")
	}
	criteria := r.decodeCriteria(root, "")
	if err := r.problems.inTextOrder(); err != nil {
		return nil, nil, err
	}
	return criteria, r.warnings, nil
}

// criteriaReader decodes the criteria of a team or of a file.
type criteriaReader struct {
	*Decoder

	inFile   bool     // in a file, which may hold keys of other programs, misfits are warnings
	warnings Problems // only of a file
}

func (r *criteriaReader) decodeCriteria(n *yaml.Node, key string) Criteria {
	if !isNullOr(n, list) && key != "" {
		r.reportType(n, key, "a list of criteria")
	}
	if kindOf(n) != list {
		return nil
	}
	var all Criteria
	for i, item := range n.Content {
		if kindOf(item) != mapping {
			r.reportAt(item, key, "item %d: expected an object with the key text, found %s", i+1, describeValue(item))
			continue
		}
		c := Criterion{Text: firstString(item, textKeys...), Category: "standard"}
		if c.Text == "" {
			r.reportTextless(item, key, i)
			continue
		}
		for _, f := range r.uniqueEntries(item, itemKey(key, i)) {
			r.decodeCriterionKey(f, itemKey(key, i), &c)
		}
		all = append(all, c)
	}
	return all
}

// reportTextless reports a criterion without a text. A text of another type is reported by its key.
func (r *criteriaReader) reportTextless(item *yaml.Node, key string, i int) {
	for _, name := range textKeys {
		if v := Lookup(item, name); v != nil && !isNullOr(v, str) {
			r.reportType(v, joinKey(itemKey(key, i), name), "a string")
			return
		}
	}
	r.reportAt(item, key, "item %d: no text; every criterion needs a non-empty text, description or name", i+1)
}

// textKeys are the keys that can hold the text of a criterion, the preferred one first.
var textKeys = []string{"text", "description", "name"}

// criterionKeys are the keys of a criterion. Those without an entry in criterionKinds are strings.
var (
	criterionKeys  = append(slices.Clone(textKeys), "category", "verify_by", "anti_patterns", "score_anchors")
	criterionKinds = map[string]kind{"anti_patterns": list, "score_anchors": mapping}
)

// scoreForm is the form of the scores from 0 to 10 as keys.
var scoreForm = regexp.MustCompile(`^([0-9](\.[0-9]+)?|10(\.0+)?)$`)

func (r *criteriaReader) decodeCriterionKey(f Entry, parent string, c *Criterion) {
	v, key := f.Value, joinKey(parent, f.Key.Value)
	want := cmp.Or(criterionKinds[f.Key.Value], str)
	switch {
	case !slices.Contains(criterionKeys, f.Key.Value):
		r.reportForeign(f, parent)
	case kindOf(v) == null:
	case kindOf(v) != want || want == list && len(stringsOf(v)) < len(v.Content):
		expected := map[kind]string{str: "a string", list: "a list of strings", mapping: "a mapping of scores to their meanings"}
		r.reportMisfit(v, key, expected[want])
	case f.Key.Value == "category":
		c.Category = parseCategory(v.Value)
	case f.Key.Value == "verify_by":
		c.VerifyBy = strings.TrimSpace(v.Value)
	case want == list:
		c.AntiPatterns = stringsOf(v)
	case want == mapping:
		c.ScoreAnchors = r.decodeAnchors(v, key)
	}
}

// decodeAnchors decodes the meanings of scores. In a team, every key must be a score.
func (r *criteriaReader) decodeAnchors(n *yaml.Node, key string) map[string]any {
	meanings := make(map[string]any, len(n.Content)/2)
	for _, f := range r.uniqueEntries(n, key) {
		switch at := joinKey(key, f.Key.Value); {
		case !r.inFile && !scoreForm.MatchString(f.Key.Value):
			r.reportAt(f.Key, at, "not a score; give the meaning of scores from 0 to 10")
		case kindOf(f.Value) != str:
			r.reportMisfit(f.Value, at, "the meaning of the score, a string")
		default:
			meanings[f.Key.Value] = f.Value.Value
		}
	}
	return meanings
}

func (r *criteriaReader) reportMisfit(v *yaml.Node, key, expected string) {
	if r.inFile {
		r.warnAt(v, key, "ignored: expected %s, found %s", expected, describeValue(v))
		return
	}
	r.reportType(v, key, expected)
}

// reportForeign reports an unknown key of a criterion; in a file, only one that is probably misspelt.
func (r *criteriaReader) reportForeign(f Entry, parent string) {
	if !r.inFile {
		r.reportUnknown(f, parent, criterionKeys)
		return
	}
	if nearest, near := text.Nearest(f.Key.Value, criterionKeys); near {
		r.warnAt(f.Key, joinKey(parent, f.Key.Value), "unknown key, ignored; did you mean %s?", nearest)
	}
}

func (r *criteriaReader) warnAt(at *yaml.Node, key, format string, args ...any) {
	r.warnings = append(r.warnings, problem{File: r.file, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)})
}

func parseCategory(s string) string {
	switch strings.ToLower(s) {
	case "primary":
		return "primary"
	case "stretch", "could":
		return "stretch"
	}
	return "standard"
}

func firstString(n *yaml.Node, keys ...string) string {
	for _, key := range keys {
		if v := Lookup(n, key); v != nil && kindOf(v) == str && strings.TrimSpace(v.Value) != "" {
			return v.Value
		}
	}
	return ""
}

// stringsOf returns the items of a list of strings, nil if any is not a string.
func stringsOf(n *yaml.Node) []string {
	var all []string
	for _, item := range n.Content {
		if kindOf(item) != str {
			return nil
		}
		all = append(all, item.Value)
	}
	return all
}

// Entry is one entry of a mapping. The nodes have the positions of the key and of the value.
type Entry struct{ Key, Value *yaml.Node }

// Entries returns the entries of a mapping in order, duplicates included. Other nodes have none.
func Entries(n *yaml.Node) []Entry {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	entries := make([]Entry, 0, len(n.Content)/2)
	for pair := range slices.Chunk(n.Content, 2) {
		entries = append(entries, Entry{pair[0], pair[1]})
	}
	return entries
}

// Lookup returns the value of a key of a mapping, or nil.
func Lookup(n *yaml.Node, key string) *yaml.Node {
	for _, e := range Entries(n) {
		if e.Key.Value == key {
			return e.Value
		}
	}
	return nil
}

// SetEntry sets a key of a mapping. A value that replaces another one takes its comments.
func SetEntry(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			value.HeadComment, value.LineComment = n.Content[i+1].HeadComment, n.Content[i+1].LineComment
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// Find returns the value of a key as written in messages, such as agents[0].id, with that key,
// or else the innermost value that would enclose it.
func Find(root *yaml.Node, key string) (*yaml.Node, string) { return findBelow(root, "", key) }

// findBelow is Find from the value n of the key at.
func findBelow(n *yaml.Node, at, key string) (*yaml.Node, string) {
	leads := func(to string) bool {
		rest, begins := strings.CutPrefix(key, to)
		return begins && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, e := range Entries(n) {
		if to := joinKey(at, e.Key.Value); leads(to) {
			return findBelow(e.Value, to, key)
		}
	}
	for i, item := range n.Content {
		if to := itemKey(at, i); n.Kind == yaml.SequenceNode && leads(to) {
			return findBelow(item, to, key)
		}
	}
	return n, at
}

// kind classifies a value of a document.
type kind int

const (
	null kind = iota
	boolean
	number
	str
	list
	mapping
)

// quotedStyles mark a scalar that is a string, whatever it looks like.
const quotedStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle

// jsonNumber matches the numbers that all versions of YAML read alike. Others (0x10, 012,
// 1_000, .inf) stay strings.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func kindOf(n *yaml.Node) kind {
	switch {
	case n.Kind == yaml.MappingNode:
		return mapping
	case n.Kind == yaml.SequenceNode:
		return list
	case n.Style&quotedStyles != 0:
		return str
	case n.Tag == "!!null":
		return null
	case n.Tag == "!!bool":
		return boolean
	case jsonNumber.MatchString(n.Value):
		return number
	}
	return str
}

// isNullOr reports whether a value has a kind or is missing.
func isNullOr(n *yaml.Node, want kind) bool {
	k := kindOf(n)
	return k == null || k == want
}

func listOf(item *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Line: item.Line, Column: item.Column, Content: []*yaml.Node{item}}
}

func isTrue(n *yaml.Node) bool { return strings.EqualFold(n.Value, "true") }

// isPlain reports whether a scalar may be meant as a string: YAML needs no quotes, JSON does.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 }

func describeValue(n *yaml.Node) string {
	switch kindOf(n) {
	case null:
		return "nothing (null)"
	case boolean:
		return strings.ToLower(n.Value)
	case number:
		return text.Truncate(n.Value, maxQuoted)
	case str:
		return "the string " + quoteSafely(n.Value)
	case list:
		return "a list"
	}
	return "a mapping"
}

// maxQuoted bounds the values repeated in messages, in bytes.
const maxQuoted = 43

// quoteSafely escapes and truncates a string of a configuration, and withholds it if it could be a secret.
func quoteSafely(s string) string {
	if text.LooksSecret(s) {
		return "(not shown, it could be a secret)"
	}
	return strconv.Quote(text.Truncate(s, maxQuoted))
}
