package config

import (
	"reflect"
	"strings"
)

// Criteria are the criteria that answers are judged by.
type Criteria []Criterion

// Criterion is one thing that answers are judged by. Only Text is required.
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
// name. Other keys and optional ones of a wrong type are ignored; an empty list is
// valid. Errors are of type Problems.
func ParseCriteria(name string, data []byte) (Criteria, error) {
	root, err := readJSON(name, data)
	if err != nil {
		return nil, err
	}
	d := newDecoder(name, Local, criteriaType)
	if root.kind == mapping {
		inner := root.get("criteria")
		if inner == nil {
			d.report(root.position, "", "no key criteria; evaluation criteria are an array, or an object with the key criteria")
			return nil, d.problems
		}
		root = inner
	}
	if root.kind != list {
		d.unexpected(root, "", "an array of criteria")
	}
	criteria := d.criteria(root, "")
	if err := d.problems.sorted(); err != nil {
		return nil, err
	}
	return criteria, nil
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

// category maps spellings of a category to the three that exist.
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
