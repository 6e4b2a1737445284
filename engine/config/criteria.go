package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

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

// ParseCriteria reads evaluation criteria from JSON: an array, or an object with
// the key criteria. Every item needs a text, which may be called description or
// name. Optional keys of a wrong type are ignored, as are keys of other programs; an
// empty list is valid. Errors are of type Problems.
func ParseCriteria(name string, data []byte) (Criteria, error) {
	criteria, _, err := ReviewCriteria(name, data)
	return criteria, err
}

// ReviewCriteria is ParseCriteria with a warning for each ignored key that was probably
// meant to count.
func ReviewCriteria(name string, data []byte) (Criteria, Problems, error) {
	root, err := readJSON(name, data)
	if err != nil {
		return nil, nil, err
	}
	d := newDecoder(name, Local, criteriaType)
	if root.kind == mapping {
		inner := root.get("criteria")
		if inner == nil {
			d.report(root.position, "", "no key criteria; evaluation criteria are an array, or an object with the key criteria")
			return nil, nil, d.problems
		}
		root = inner
	}
	if root.kind != list {
		d.unexpected(root, "", "an array of criteria")
	}
	criteria := d.criteria(root, "")
	if err := d.problems.sorted(); err != nil {
		return nil, nil, err
	}
	return criteria, d.warnings, nil
}

// criteria decodes a list of criteria.
func (d *Decoder) criteria(n *node, key string) Criteria {
	if n.kind != list && n.kind != null && key != "" {
		d.unexpected(n, key, "a list of criteria")
	}
	var all Criteria
	for i, item := range n.items {
		if item.kind != mapping {
			d.report(item.position, key, "item %d: expected an object with the key text, found %s", i+1, item.found())
			continue
		}
		c := Criterion{Text: item.first(textKeys...), Category: "standard"}
		if c.Text == "" {
			d.textless(item, key, i)
			continue
		}
		for _, f := range d.fields(item, nth(key, i)) {
			d.criterionKey(f, nth(key, i), &c)
		}
		all = append(all, c)
	}
	return all
}

// textless reports a criterion without a text. A text of another type is reported by its key.
func (d *Decoder) textless(item *node, key string, i int) {
	for _, name := range textKeys {
		if v := item.get(name); v != nil && v.kind != str && v.kind != null {
			d.unexpected(v, join(nth(key, i), name), "a string")
			return
		}
	}
	d.report(item.position, key, "item %d: no text; every criterion needs a non-empty text, description or name", i+1)
}

// textKeys are the keys that can hold the text of a criterion, the preferred one first.
var textKeys = []string{"text", "description", "name"}

// criterionKeys are the keys of a criterion. Those without an entry in criterionKinds are
// strings.
var (
	criterionKeys  = append(slices.Clone(textKeys), "category", "verify_by", "anti_patterns", "score_anchors")
	criterionKinds = map[string]kind{"anti_patterns": list, "score_anchors": mapping}
)

// scoreForm is the form of the scores from 0 to 10 as keys.
var scoreForm = regexp.MustCompile(`^([0-9](\.[0-9]+)?|10(\.0+)?)$`)

// criterionKey decodes one key of a criterion whose text is known.
func (d *Decoder) criterionKey(f field, parent string, c *Criterion) {
	v, key := f.value, join(parent, f.key)
	want := cmp.Or(criterionKinds[f.key], str)
	switch {
	case !slices.Contains(criterionKeys, f.key):
		d.foreign(f, parent)
	case v.kind == null:
	case v.kind != want || want == list && len(v.texts()) < len(v.items):
		expected := map[kind]string{str: "a string", list: "a list of strings", mapping: "a mapping of scores to their meanings"}
		d.misfit(v, key, expected[want])
	case f.key == "category":
		c.Category = category(v.text)
	case f.key == "verify_by":
		c.VerifyBy = strings.TrimSpace(v.text)
	case want == list:
		c.AntiPatterns = v.texts()
	case want == mapping:
		c.ScoreAnchors = d.anchors(v, key)
	}
}

// anchors decodes the meanings of scores. In a team, every key must be a score.
func (d *Decoder) anchors(n *node, key string) map[string]any {
	meanings := make(map[string]any, len(n.fields))
	for _, f := range d.fields(n, key) {
		switch at := join(key, f.key); {
		case d.document != criteriaType && !scoreForm.MatchString(f.key):
			d.report(f.position, at, "not a score; give the meaning of scores from 0 to 10")
		case f.value.kind != str:
			d.misfit(f.value, at, "the meaning of the score, a string")
		default:
			meanings[f.key] = f.value.text
		}
	}
	return meanings
}

// misfit reports a value of the wrong type: a problem in a team, a warning in a file of
// criteria.
func (d *Decoder) misfit(v *node, key, expected string) {
	if d.document == criteriaType {
		d.warn(v.position, key, "ignored: expected %s, found %s", expected, v.found())
		return
	}
	d.unexpected(v, key, expected)
}

// foreign reports an unknown key of a criterion. Files of criteria may have keys of other
// programs, so it reports only misspelt keys there, as warnings.
func (d *Decoder) foreign(f field, parent string) {
	if d.document != criteriaType {
		d.unknown(f, parent, criterionKeys)
		return
	}
	if nearest, near := text.Nearest(f.key, criterionKeys); near {
		d.warn(f.position, join(parent, f.key), "unknown key, ignored; did you mean %s?", nearest)
	}
}

// warn adds a warning at a position.
func (d *Decoder) warn(at position, key, format string, args ...any) {
	d.warnings = append(d.warnings, problem{File: d.file, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
}

// category maps the spelling of a category to one of the three that exist.
func category(s string) string {
	switch strings.ToLower(s) {
	case "primary":
		return "primary"
	case "stretch", "could":
		return "stretch"
	}
	return "standard"
}

// first returns the non-empty string of the first key that has one, or "".
func (n *node) first(keys ...string) string {
	for _, key := range keys {
		if v := n.get(key); v != nil && v.kind == str && strings.TrimSpace(v.text) != "" {
			return v.text
		}
	}
	return ""
}

// texts returns the items of a list of strings, nil if any is not a string.
func (n *node) texts() []string {
	var all []string
	for _, item := range n.items {
		if item.kind != str {
			return nil
		}
		all = append(all, item.text)
	}
	return all
}
