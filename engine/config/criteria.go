package config

import (
	"reflect"
	"strings"
)

// Criteria are what answers are judged by.
type Criteria []Criterion

// Criterion is one thing that an answer is judged by.
type Criterion struct {
	Text         string         `json:"text"`
	Category     string         `json:"category"`                // primary, standard or stretch
	VerifyBy     string         `json:"verify_by,omitempty"`     // how to find out
	AntiPatterns []string       `json:"anti_patterns,omitempty"` // what not to fall for
	ScoreAnchors map[string]any `json:"score_anchors,omitempty"` // what a score stands for
}

var criteriaType = reflect.TypeFor[Criteria]()

// ParseCriteria reads evaluation criteria from JSON: an array, or an object with
// the key criteria. Every item has a text, which may be called description or
// name. Optional keys of a wrong type and other keys are ignored. No items are no
// error. Name stands for the text in messages; an error is of type Problems.
func ParseCriteria(name string, data []byte) (Criteria, error) {
	d := decoder{file: name, places: map[string]position{}}
	if len(data) > maxBytes {
		d.report(position{1, 1}, "", "%d bytes are too many for evaluation criteria, at most %d are accepted", len(data), maxBytes)
		return nil, d.problems.sorted()
	}
	if at := invalidUTF8(data); at >= 0 {
		d.report(place(data, at), "", "not UTF-8 text; save the file in UTF-8")
		return nil, d.problems.sorted()
	}
	root, f := readJSON(data)
	if f != nil {
		d.report(f.position, "", "%s", f.message)
		return nil, d.problems.sorted()
	}
	if root.kind == mapping {
		inner := root.get("criteria")
		if inner == nil {
			d.report(root.position, "", "no key criteria; evaluation criteria are an array, or an object with the key criteria")
			return nil, d.problems.sorted()
		}
		root = inner
	}
	if root.kind != list {
		d.wrong(root, "", "an array of criteria")
	}
	criteria := d.criteria(root, "")
	if err := d.problems.sorted(); err != nil {
		return nil, err
	}
	return criteria, nil
}

// criteria decodes a list of criteria.
func (d *decoder) criteria(n *node, key string) Criteria {
	if n.kind != list && n.kind != null && key != "" {
		d.wrong(n, key, "a list of criteria")
	}
	var all Criteria
	for i, item := range n.items {
		if item.kind != mapping {
			d.report(item.position, key, "item %d: expected an object with the key text, found %s", i+1, item.found())
			continue
		}
		c := Criterion{Text: item.first("text", "description", "name"), Category: category(item.first("category")), VerifyBy: item.first("verify_by")}
		if c.Text == "" {
			d.report(item.position, key, "item %d: no text; every criterion needs a non-empty text, description or name", i+1)
			continue
		}
		if patterns := item.get("anti_patterns"); patterns != nil {
			c.AntiPatterns = patterns.texts()
		}
		if anchors := item.get("score_anchors"); anchors != nil && anchors.kind == mapping {
			c.ScoreAnchors, _ = d.any(anchors, key).(map[string]any)
		}
		all = append(all, c)
	}
	return all
}

// category maps what people write to the three categories there are.
func category(s string) string {
	switch strings.ToLower(s) {
	case "primary":
		return "primary"
	case "stretch", "could":
		return "stretch"
	}
	return "standard"
}

// get is the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// first is the first of the keys that has a non-empty string, or "".
func (n *node) first(keys ...string) string {
	for _, key := range keys {
		if v := n.get(key); v != nil && v.kind == stringText && strings.TrimSpace(v.text) != "" {
			return v.text
		}
	}
	return ""
}

// texts are the strings of a list that has nothing else, or nil.
func (n *node) texts() []string {
	var all []string
	for _, item := range n.items {
		if item.kind != stringText {
			return nil
		}
		all = append(all, item.text)
	}
	return all
}
