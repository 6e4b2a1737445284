package llm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"conclave/engine/text"
)

// checker checks values against schemas, each pair once, because references can multiply the ways to
// a pair without bound.
type checker struct{ known map[pair][]string }

type pair struct {
	schema *jsonschema.Schema
	path   string // JSON pointer to the value
}

const (
	maxPairs  = 200_000
	maxFaults = 5 // in one error
)

// check returns the faults of the value at a path.
func (c *checker) check(s *jsonschema.Schema, value any, path string) []string {
	at := pair{s, path}
	if faults, known := c.known[at]; known {
		return faults
	}
	if len(c.known) > maxPairs {
		return []string{faultAt(path, "there is too much to compare with the schema; give less data, or a schema with fewer alternatives")}
	}
	c.known[at] = nil // where a schema refers to itself, it demands nothing more
	faults := slices.Concat(localFaults(s, value, path), c.checkPlace(s, value, path))
	for _, part := range partsOf(value) {
		at := path + "/" + escapeToken(part.name)
		within, allowed := part.schemasOf(s)
		if !allowed {
			faults = append(faults, faultAt(at, "the schema does not allow it"))
		}
		for _, of := range within {
			faults = append(faults, c.check(of, part.value, at)...)
		}
		if s.PropertyNames != nil && part.index < 0 {
			faults = append(faults, c.check(s.PropertyNames, part.name, at)...)
		}
	}
	faults = slices.Compact(slices.Sorted(slices.Values(faults)))
	c.known[at] = faults[:min(len(faults), maxFaults+1)] // the same fault may be found in many ways
	return c.known[at]
}

var english = message.NewPrinter(language.English)

// localFaults returns the faults that a schema finds without another schema.
func localFaults(s *jsonschema.Schema, value any, path string) []string {
	local := jsonschema.Schema{
		DraftVersion: s.DraftVersion, Bool: s.Bool, Types: s.Types, Enum: s.Enum, Const: s.Const, Required: s.Required, DependentRequired: s.DependentRequired,
		MinProperties: s.MinProperties, MaxProperties: s.MaxProperties, MinItems: s.MinItems, MaxItems: s.MaxItems, UniqueItems: s.UniqueItems,
		MinLength: s.MinLength, MaxLength: s.MaxLength, Pattern: s.Pattern,
		Minimum: s.Minimum, Maximum: s.Maximum, ExclusiveMinimum: s.ExclusiveMinimum, ExclusiveMaximum: s.ExclusiveMaximum, MultipleOf: s.MultipleOf,
	}
	if s.Format != nil && slices.Contains(checkedFormats, s.Format.Name) {
		local.Format = s.Format
	}
	var failed *jsonschema.ValidationError
	if !errors.As(local.Validate(value), &failed) {
		return nil
	}
	return faultsOf(path, failed)
}

// faultsOf returns the faults of an error of the library, for a value at a path.
func faultsOf(path string, e *jsonschema.ValidationError) (faults []string) {
	for _, cause := range e.Causes {
		faults = append(faults, faultsOf(path, cause)...)
	}
	if len(e.Causes) > 0 {
		return faults
	}
	for _, token := range e.InstanceLocation {
		path += "/" + escapeToken(token)
	}
	why := e.ErrorKind.LocalizedString(english)
	if _, never := e.ErrorKind.(*kind.FalseSchema); never {
		why = "nothing is allowed here"
	}
	return []string{faultAt(path, "%s", text.Truncate(why, 300))}
}

func joinFaults(faults []string, separator string) string {
	if len(faults) > maxFaults {
		faults = append(slices.Clone(faults[:maxFaults]), "and more")
	}
	return strings.Join(faults, separator)
}

// checkPlace checks a value against the schemas that a schema names for the same value.
func (c *checker) checkPlace(s *jsonschema.Schema, value any, path string) (faults []string) {
	fits := func(of *jsonschema.Schema) bool { return len(c.check(of, value, path)) == 0 }
	for _, of := range s.AllOf {
		faults = append(faults, c.check(of, value, path)...)
	}
	if s.Ref != nil {
		faults = append(faults, c.check(s.Ref, value, path)...)
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(alternatives) == 0 || slices.ContainsFunc(alternatives, fits) {
			continue
		}
		why := "it fits none of the alternatives"
		for i, of := range alternatives[:min(len(alternatives), maxFaults)] {
			why += fmt.Sprintf(" (%d) %s", i+1, joinFaults(c.check(of, value, path), ", "))
		}
		faults = append(faults, faultAt(path, "%s", text.Truncate(why, 1000)))
	}
	if first := slices.IndexFunc(s.OneOf, fits); first >= 0 && slices.ContainsFunc(s.OneOf[first+1:], fits) {
		faults = append(faults, faultAt(path, "it fits more than one of the alternatives of oneOf"))
	}
	if s.Not != nil && fits(s.Not) {
		faults = append(faults, faultAt(path, "it fits the schema under not"))
	}
	return faults
}

// part is a property, or an item of an array with its index.
type part struct {
	name  string
	index int // -1 of a property
	value any
}

// partsOf returns the properties or items of a value.
func partsOf(value any) (parts []part) {
	items, _ := value.([]any)
	for i, item := range items {
		parts = append(parts, part{strconv.Itoa(i), i, item})
	}
	fields, _ := value.(map[string]any)
	for name, field := range fields {
		parts = append(parts, part{name, -1, field})
	}
	return parts
}

// schemasOf returns the schemas of a part of a value of a schema, and whether it is allowed.
func (p part) schemasOf(s *jsonschema.Schema) (found []*jsonschema.Schema, allowed bool) {
	others := s.AdditionalProperties
	if of := s.Properties[p.name]; of != nil && p.index < 0 {
		found = append(found, of)
	}
	for pattern, of := range s.PatternProperties {
		if _, unread := pattern.(unchecked); unread {
			others = nil // any name may be meant
		} else if p.index < 0 && pattern.MatchString(p.name) {
			found = append(found, of)
		}
	}
	if p.index >= 0 {
		first, isList := s.Items.([]*jsonschema.Schema)
		first = append(slices.Clone(first), s.PrefixItems...)
		others = s.AdditionalItems
		switch {
		case p.index < len(first):
			found = first[p.index : p.index+1]
		case s.Items2020 != nil:
			others = s.Items2020
		case !isList && s.Items != nil:
			others = s.Items
		}
	}
	if rest, ok := others.(*jsonschema.Schema); ok && len(found) == 0 {
		found = append(found, rest)
	}
	return found, others != false || len(found) > 0
}
